"""Holds the answers of `hta` to random statements against those of DuckDB over the same tables.

    python3 tests/queries/random_statements.py [--hta target/release/hta] [--count N] [--seed S] RESULTS_DIR[=TRACES]...

Each RESULTS_DIR is what `hta analyze` left. The statements run on it by `hta query` and by the tool `sql` of `hta mcp`, and
with TRACES also on these traces, of which the results were made. Every statement is one SELECT with joins of all forms, parts after WITH, subqueries, aggregates,
windows, CASE, logic with NULL, patterns, decimals, and dates: drawn from a seed, so that a run can be repeated.

An answer is right if it has the rows and the values of DuckDB: in the same order where the statement gives one,
in any order else; integers, texts, booleans and missing values exactly, floats to 1e-9 of their size. hta may refuse a
statement (exit code 2, with a reason); it is counted, and fails if more than --most-refused percent are. A statement
that DuckDB refuses has no right answer and is drawn again. Exits 1 on any difference. Needs the Python package duckdb.
"""

import argparse
import decimal
import json
import math
import random
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
from duckdb_compare import ROOT, TOLERANCE, connected

# Joins of everything with everything stay below this many rows.
MOST_ROWS = 200_000
# Tables with more rows are left out, and these come more often than others.
MOST_OF_TABLE = 3_000
OFTEN = ("steps", "ranks", "findings", "temporal_breakdown", "step_summary")
NUMBERS = {"UINTEGER": "int", "BIGINT": "int", "UBIGINT": "int", "DOUBLE": "float", "BOOLEAN": "bool", "VARCHAR": "text"}


class Table:
    """A table of the results: its columns with their types, its number of rows, and a few texts of each column."""

    def __init__(self, connection, name):
        self.name = name
        self.columns = {}
        for column, kind, *_ in connection.execute(f'DESCRIBE "{name}"').fetchall():
            if kind in NUMBERS:
                self.columns[column] = NUMBERS[kind]
        self.rows = connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]
        self.values = {}
        for column in self.columns:
            found = connection.execute(f'SELECT DISTINCT "{column}" FROM "{name}" WHERE "{column}" IS NOT NULL ORDER BY 1 LIMIT 6')
            self.values[column] = [row[0] for row in found.fetchall()]


class Source:
    """What a SELECT reads under one alias: columns with types and known values."""

    def __init__(self, alias, columns, values, rows, text):
        self.alias, self.columns, self.values, self.rows, self.text = alias, columns, values, rows, text


class Writer:
    """Draws one statement."""

    def __init__(self, tables, seed):
        self.random = random.Random(seed)
        self.tables = tables
        self.parts = []
        self.aliases = 0

    # --- values

    def alias(self, prefix="t"):
        self.aliases += 1
        return f"{prefix}{self.aliases}"

    def chance(self, part):
        return self.random.random() < part

    def text_literal(self, text):
        return "'" + text.replace("'", "''") + "'"

    def literal(self, kind, near=()):
        pick = self.random.choice
        near = [v for v in near if v is not None]
        if self.chance(0.05):
            return "NULL"
        if kind == "int":
            return str(pick(near)) if near and self.chance(0.6) else str(pick([0, 1, 2, 3, 5, 7, 10, 100, 1000, 123456, -1, -4]))
        if kind == "float":
            return repr(float(pick(near))) if near and self.chance(0.3) else pick(["0.5", "1.5", "2.25", "10.0", "-0.75", "100.0"])
        if kind == "bool":
            return pick(["TRUE", "FALSE"])
        if near and self.chance(0.7):
            return self.text_literal(pick(near)[:40])
        return self.text_literal(pick(["", "a", "step", "nccl", "K", "_", "%", "kernel", "it's", "é"]))

    def column(self, sources, kind):
        """A column of this type, or None."""
        found = [(s, c) for s in sources for c, k in s.columns.items() if k == kind]
        return self.random.choice(found) if found else None

    def name(self, sources, source, column):
        is_shared = sum(column in s.columns for s in sources) > 1
        return f"{source.alias}.{column}" if is_shared or self.chance(0.7) else column

    def value(self, sources, kind, depth):
        """An expression of this type over the rows of the sources."""
        pick = self.random.choice
        found = self.column(sources, kind)
        if depth <= 0 or self.chance(0.45):
            if found and self.chance(0.85):
                return self.name(sources, *found)
            return self.literal(kind, found[0].values.get(found[1], ()) if found else ())
        deeper = lambda k: self.value(sources, k, depth - 1)
        if self.chance(0.12):
            return self.of_decimal(sources, kind)
        if self.chance(0.12):
            return self.case(sources, kind, depth)
        if self.chance(0.1):
            return pick(["COALESCE({}, {})", "NULLIF({}, {})", "GREATEST({}, {})", "LEAST({}, {})", "IFNULL({}, {})"]).format(deeper(kind), deeper(kind))
        if kind == "int":
            return pick([
                lambda: f"{deeper('int')} + {deeper('int')}",
                lambda: f"({deeper('int')} - {deeper('int')})",
                lambda: f"{deeper('int')} * {self.literal('int')}",
                lambda: f"{deeper('int')} * {deeper('int')}",
                lambda: f"{deeper('int')} % {pick(['2', '3', '7', '10', '-3'])}",
                lambda: f"{deeper('int')} // {pick(['2', '3', '7', '1000', '-2'])}",
                lambda: f"-{deeper('int')}",
                lambda: f"ABS({deeper('int')})",
                lambda: f"LENGTH({deeper('text')})",
                lambda: f"STRPOS({deeper('text')}, {self.literal('text')})",
                lambda: f"CAST({deeper(pick(['float', 'bool', 'int']))} AS BIGINT)",
                lambda: f"SIGN({deeper('int')})",
                lambda: self.of_date() if self.chance(0.2) else f"ABS({deeper('int')})",
                lambda: f"MOD({deeper('int')}, {pick(['2', '5', '-3'])})",
            ])()
        if kind == "float":
            return pick([
                lambda: f"{deeper('int')} / {pick(['2', '3', '1000', '1e6', '0', '0.0'])}",
                lambda: f"{deeper('int')} / {deeper('int')}",
                lambda: f"{deeper('float')} + {deeper('int')}",
                lambda: f"({deeper('float')} - {deeper('float')})",
                lambda: f"{deeper('float')} * {self.literal('float')}",
                lambda: f"CAST({deeper('int')} AS DOUBLE)",
                lambda: f"ROUND({deeper('float')}, {pick(['0', '1', '2', '3'])})",
                lambda: f"ROUND({deeper('float')})",
                lambda: f"{pick(['FLOOR', 'CEIL', 'ABS', 'TRUNC'])}({deeper('float')})",
                lambda: f"SQRT(ABS({deeper(pick(['int', 'float']))}))",
                lambda: f"{pick(['LN', 'LOG10', 'LOG2', 'EXP'])}(1 + ABS({deeper('int')}) % 40)",
                lambda: f"POWER({deeper('int')} % 50, {pick(['2', '3', '0.5'])})",
            ])()
        if kind == "bool":
            return self.condition(sources, depth)
        return pick([
            lambda: f"UPPER({deeper('text')})",
            lambda: f"LOWER({deeper('text')})",
            lambda: f"{deeper('text')} || {deeper('text')}",
            lambda: f"CONCAT({deeper('text')}, {deeper('text')})",
            lambda: f"SUBSTR({deeper('text')}, {pick(['1', '2', '0', '-3', '5'])}, {pick(['1', '3', '10', '0'])})",
            lambda: f"SUBSTRING({deeper('text')}, {pick(['1', '2', '4'])})",
            lambda: f"{pick(['LEFT', 'RIGHT'])}({deeper('text')}, {pick(['1', '4', '0', '-2'])})",
            lambda: f"REPLACE({deeper('text')}, {self.literal('text')}, {self.literal('text')})",
            lambda: f"{pick(['TRIM', 'LTRIM', 'RTRIM', 'REVERSE'])}({deeper('text')})",
            lambda: f"CAST({deeper(pick(['int', 'bool', 'float']))} AS VARCHAR)",
            lambda: f"CONCAT_WS('-', {deeper('text')}, {deeper('text')})",
            lambda: f"LPAD({deeper('text')}, {pick(['4', '12'])}, '*')",
            lambda: f"SPLIT_PART({deeper('text')}, {pick(['_', ' ', ':'])!r}, {pick(['1', '2'])})",
        ])()

    def decimal(self, sources, depth):
        """An expression of numbers with a point and integers, which is a decimal."""
        pick = self.random.choice
        if depth <= 0 or self.chance(0.3):
            return pick(["0.1", "0.3", "1.05", "2.50", "-0.75", "0.001", "1.005", "100.0", "7.25"])
        deeper = lambda: self.decimal(sources, depth - 1)
        whole = lambda: self.value(sources, "int", 0)
        return pick([
            lambda: f"{whole()} * {deeper()}",
            lambda: f"({deeper()} {pick(['+', '-'])} {whole()})",
            lambda: f"({deeper()} {pick(['+', '-', '*'])} {deeper()})",
            lambda: f"{whole()} % {pick(['0.3', '1.5', '-2.25'])}",
            lambda: f"-({deeper()})",
            lambda: f"ROUND({deeper()}{pick(['', ', 0', ', 1', ', 2', ', 5'])})",
            lambda: f"{pick(['FLOOR', 'CEIL', 'ABS', 'TRUNC'])}({deeper()})",
            lambda: f"{pick(['COALESCE', 'GREATEST', 'LEAST', 'NULLIF'])}({deeper()}, {pick([deeper, whole])()})",
            lambda: f"CASE WHEN {self.condition(sources, 0)} THEN {deeper()} ELSE {pick([deeper, whole])()} END",
        ])()

    def of_decimal(self, sources, kind):
        """A value of a decimal that is of this type."""
        pick = self.random.choice
        made = self.decimal(sources, 2)
        if kind == "text":
            return f"CAST({made} AS VARCHAR)"
        if kind == "int":
            return f"CAST({made} AS BIGINT)"
        if kind == "float":
            return pick([made, f"CAST({made} AS DOUBLE)", f"({made}) / {pick(['3', '0.7'])}"])
        other = pick([lambda: self.decimal(sources, 1), lambda: self.value(sources, "int", 0), lambda: self.value(sources, "float", 0)])
        return pick([
            lambda: f"{made} {pick(['=', '<>', '<', '<=', '>', '>='])} {other()}",
            lambda: f"{made} {pick(['', 'NOT '])}IN ({other()}, {other()}, 0.3)",
            lambda: f"{made} BETWEEN {other()} AND {other()}",
            lambda: f"({made} IS {pick(['', 'NOT '])}DISTINCT FROM ({other()}))",
        ])()

    def of_date(self):
        """A part of a date. The tables have none, so it is of a literal."""
        pick = self.random.choice
        date = pick(["DATE '2024-02-29'", "CAST('2023-07-04' AS DATE)", "TIMESTAMP '2024-02-29 13:14:15'"])
        return f"EXTRACT({pick(['year', 'month', 'hour', 'doy', 'quarter', 'week'])} FROM {date})"

    def case(self, sources, kind, depth):
        branches = "".join(
            f" WHEN {self.condition(sources, depth - 1)} THEN {self.value(sources, kind, depth - 1)}"
            for _ in range(self.random.randint(1, 3))
        )
        if self.chance(0.25):
            found = self.column(sources, "int")
            if found:
                name, near = self.name(sources, *found), found[0].values.get(found[1], ())
                branches = "".join(f" WHEN {self.literal('int', near)} THEN {self.value(sources, kind, depth - 1)}" for _ in range(2))
                branches = f" {name}{branches}"
        end = f" ELSE {self.value(sources, kind, depth - 1)}" if self.chance(0.7) else ""
        return f"CASE{branches}{end} END"

    def condition(self, sources, depth):
        pick = self.random.choice
        if depth > 0 and self.chance(0.4):
            first, second = self.condition(sources, depth - 1), self.condition(sources, depth - 1)
            return pick([f"({first} AND {second})", f"({first} OR {second})", f"NOT ({first})", f"{pick([first, f'({first})'])} IS {pick(['TRUE', 'NOT TRUE', 'FALSE', 'NOT FALSE', 'NULL', 'NOT NULL'])}"])
        kind = pick(["int", "int", "text", "float", "bool"])
        found = self.column(sources, kind)
        near = found[0].values.get(found[1], ()) if found else ()
        left = self.value(sources, kind, depth - 1) if self.chance(0.4) or not found else self.name(sources, *found)
        right = self.literal(kind, near) if self.chance(0.7) else self.value(sources, kind, depth - 1)
        shapes = [lambda: f"{left} {pick(['=', '<>', '<', '<=', '>', '>=', '!='])} {right}"] * 3 + [
            lambda: f"{left} IS {pick(['', 'NOT '])}NULL",
            lambda: f"{left} {pick(['', 'NOT '])}IN ({', '.join(self.literal(kind, near) for _ in range(self.random.randint(1, 4)))})",
            lambda: f"{left} {pick(['', 'NOT '])}BETWEEN {self.literal(kind, near)} AND {self.literal(kind, near)}",
            lambda: f"({left} IS {pick(['', 'NOT '])}DISTINCT FROM ({right}))",
        ]
        if kind == "text":
            shapes += [lambda: f"{left} {pick(['', 'NOT '])}{pick(['LIKE', 'ILIKE'])} {self.pattern(near)}"] * 3
            shapes += [lambda: f"{pick(['STARTS_WITH', 'ENDS_WITH', 'CONTAINS'])}({left}, {right})"]
        if kind == "bool":
            shapes += [lambda: left, lambda: f"NOT {left}"]
        if depth > 0 and self.chance(0.5):
            shapes += [lambda: self.membership(sources, kind, left)] * 2
            shapes += [lambda: f"{left} {pick(['=', '<', '>='])} {self.scalar(kind)}"] * 2
        return pick(shapes)()

    def pattern(self, near):
        word = self.random.choice([v for v in near if isinstance(v, str) and v] or ["step"])
        at = self.random.randrange(len(word))
        piece = word[at : at + self.random.randint(1, 6)]
        made = self.random.choice([f"%{piece}%", f"{piece}%", f"%{piece}", piece.replace(piece[0], "_", 1), f"%{piece.upper()}%", "%", ""])
        return self.text_literal(made)

    # --- subqueries

    def scalar(self, kind):
        inner = self.source()
        function = self.random.choice(["MAX", "MIN"] + (["AVG"] if kind in ("int", "float") else []) + (["COUNT", "SUM"] if kind == "int" else []))
        found = self.column([inner], kind if kind != "bool" else "int")
        if not found:
            return f"(SELECT COUNT(*) FROM {inner.text})" if kind in ("int", "float") else self.literal(kind)
        if kind == "bool":
            return f"(SELECT COUNT({self.name([inner], *found)}) > 3 FROM {inner.text})"
        where = f" WHERE {self.condition([inner], 0)}" if self.chance(0.4) else ""
        return f"(SELECT {function}({self.name([inner], *found)}) FROM {inner.text}{where})"

    def membership(self, sources, kind, left):
        inner = self.source()
        found = self.column([inner], kind)
        word = self.random.choice(["", "NOT "])
        where = f" WHERE {self.condition([inner], 0)}" if self.chance(0.6) else ""
        if found and self.chance(0.6):
            return f"{left} {word}IN (SELECT {inner.alias}.{found[1]} FROM {inner.text}{where})"
        outer, own = self.column(sources, "int"), self.column([inner], "int")
        if outer and own and self.chance(0.7):
            also = f" AND {self.condition([inner], 0)}" if self.chance(0.4) else ""
            return f"{word}EXISTS (SELECT {self.random.choice(['1', '*', own[0].alias + '.' + own[1]])} FROM {inner.text} WHERE {own[0].alias}.{own[1]} = {outer[0].alias}.{outer[1]}{also})"
        return f"{word}EXISTS (SELECT 1 FROM {inner.text}{where})"

    # --- sources

    def table(self):
        return self.random.choice(self.tables)

    def source(self, most=MOST_ROWS):
        """A table, a part after WITH, or a subquery, with a new alias."""
        alias = self.alias()
        if self.parts and self.chance(0.4):
            part = self.random.choice(self.parts)
            if part.rows <= most:
                return Source(alias, part.columns, part.values, part.rows, f"{part.alias} {self.random.choice(['', 'AS '])}{alias}")
        if self.chance(0.2):
            inner, columns = self.select(1, is_inner=True)
            return Source(alias, columns, {}, 1000, f"({inner}) AS {alias}")
        few = [t for t in self.tables if t.rows <= most] or [min(self.tables, key=lambda t: t.rows)]
        table = self.random.choice(few)
        return Source(alias, table.columns, table.values, table.rows, f"{table.name} {self.random.choice(['', 'AS '])}{alias}")

    def sources(self):
        """The FROM of a SELECT, and what it reads."""
        pick = self.random.choice
        first = self.source()
        found, text, rows = [first], first.text, max(1, first.rows)
        for _ in range(self.random.choices([0, 1, 2], [5, 4, 1])[0]):
            form = pick(["cross", "comma", "inner", "inner", "left", "left", "right", "full", "using", "semi", "anti", "less"])
            new = self.source(MOST_ROWS // rows)
            if new.rows * rows > MOST_ROWS:
                break
            own, other = self.column(found, "int"), self.column([new], "int")
            shared = [c for c in new.columns if c in first.columns and new.columns[c] == "int"]
            keys = [(s, c) for s in found for c in shared if c in s.columns]
            key = pick(keys) if keys else None
            if form in ("cross", "comma") or not own or not other:
                text += f"{', ' if form == 'comma' else ' CROSS JOIN '}{new.text}"
            elif form == "using" and shared and len(found) == 1:
                column = pick(shared)
                text += f" {pick(['', 'LEFT '])}JOIN {new.text} USING ({column})"
            else:
                left, right = (f"{key[0].alias}.{key[1]}", f"{new.alias}.{key[1]}") if key and self.chance(0.8) else (
                    f"{own[0].alias}.{own[1]}", f"{new.alias}.{other[1]}")
                sign = pick(["<", ">", "<=", "<>"]) if form == "less" else "="
                word = {"inner": "INNER ", "left": "LEFT ", "right": "RIGHT ", "full": "FULL ", "semi": "SEMI ", "anti": "ANTI "}.get(form, "")
                more = ""
                if self.chance(0.25):
                    more = f" AND {self.condition([*found, new], 0)}"
                elif len(shared) > 1 and key and self.chance(0.4):
                    second = pick([c for c in shared if c != key[1]])
                    more = f" AND {first.alias}.{second} = {new.alias}.{second}"
                text += f" {word}JOIN {new.text} ON {left} {sign} {right}{more}"
                if form in ("semi", "anti"):
                    continue
            found.append(new)
            rows *= max(1, new.rows)
        return found, text

    # --- the statement

    def aggregate(self, sources):
        """An aggregate and the type of its value."""
        pick = self.random.choice
        kind = pick(["int", "int", "float", "text", "bool"])
        inner = self.value(sources, kind, 1)
        choices = [("COUNT(*)", "int"), (f"COUNT({inner})", "int"), (f"COUNT(DISTINCT {inner})", "int"),
                   (f"MIN({inner})", kind), (f"MAX({inner})", kind)]
        if kind == "int":
            choices += [(f"SUM({inner})", "int")] * 2 + [(f"AVG({inner})", "float")] * 2 + [(f"MEDIAN({inner})", "float")]
            choices += [(f"STDDEV({inner})", "float"), (f"VARIANCE({inner})", "float"), (f"SUM(DISTINCT {inner})", "int")]
            choices += [(f"QUANTILE_CONT({inner}, {pick(['0.9', '0.25', '0.5'])})", "float")]
            choices += [(f"SUM({inner}) FILTER (WHERE {self.condition(sources, 0)})", "int")]
        if kind == "float":
            choices += [(f"SUM({inner})", "float"), (f"AVG({inner})", "float")]
            made = self.decimal(sources, 2)
            choices += [(f"{pick(['SUM', 'MIN', 'MAX', 'AVG', 'COUNT'])}({made})", "float"), (f"SUM(DISTINCT {made})", "float")]
            choices += [(f"QUANTILE_DISC({made}, {pick(['0.9', '0.25', '0.5'])})", "float"), (f"{made} * {pick(['MAX', 'COUNT'])}({inner})", "float")]
        if kind == "bool":
            choices += [(f"SUM(CASE WHEN {inner} THEN 1 ELSE 0 END)", "int"), (f"BOOL_AND({inner})", "bool"), (f"BOOL_OR({inner})", "bool")]
        made, of = pick(choices)
        if self.chance(0.2) and of == "int":
            made = f"{made} {pick(['+', '*', '-'])} {pick(['1', '2', 'COUNT(*)'])}"
        return made, of

    def window(self, sources):
        pick = self.random.choice
        found = self.column(sources, "int")
        kind = pick(["int", "text"])
        by = f"PARTITION BY {self.value(sources, kind, 0)}" if self.chance(0.7) else ""
        number = self.decimal(sources, 2) if self.chance(0.2) else self.value(sources, "int", 0)
        order = ", ".join(f"{s.alias}.{c}{pick(['', ' DESC'])}" for s in sources for c in s.columns)
        some = f"{self.name(sources, *found)}{pick(['', ' DESC'])}" if found else order
        return pick([
            (f"ROW_NUMBER() OVER ({by} ORDER BY {order})", "int"),
            (f"{pick(['RANK', 'DENSE_RANK'])}() OVER ({by} ORDER BY {some})", "int"),
            (f"{pick(['SUM', 'MIN', 'MAX', 'COUNT', 'AVG'])}({number}) OVER ({by})", "float"),
            (f"{pick(['SUM', 'MIN', 'MAX', 'COUNT'])}({number}) OVER ({by} ORDER BY {some})", "int"),
            (f"{pick(['LAG', 'LEAD'])}({number}{pick(['', ', 2'])}) OVER ({by} ORDER BY {order})", "int"),
            (f"{pick(['FIRST_VALUE', 'LAST_VALUE'])}({number}) OVER ({by} ORDER BY {order})", "int"),
            (f"SUM({number}) OVER ({by} ORDER BY {order} ROWS BETWEEN {pick(['UNBOUNDED', '2', '1'])} PRECEDING AND CURRENT ROW)", "int"),
            (f"COUNT(*) OVER ({by})", "int"),
        ])

    def select(self, depth, is_inner=False, width=None):
        """A SELECT, and its columns with their types."""
        pick = self.random.choice
        sources, text = self.sources() if depth > 0 or self.chance(0.3) else (lambda s: ([s], s.text))(self.source())
        where = f" WHERE {self.condition(sources, 2)}" if self.chance(0.55) else ""
        kinds = ["int", "int", "text", "float", "bool"]
        # With its own width only where the other side of a UNION needs it.
        columns, names = [], {}
        def add(expression, kind):
            name = f"c{len(columns) + 1}"
            columns.append(f"{expression} AS {name}")
            names[name] = kind
        form = pick(["rows", "rows", "rows", "group", "group", "all", "distinct", "window"]) if width is None else "rows"
        tail = ""
        if form in ("rows", "distinct"):
            wanted = width or [pick(kinds) for _ in range(self.random.randint(1, 4))]
            for kind in wanted:
                add(self.value(sources, kind, self.random.randint(0, 2)), kind)
            if width is None and self.chance(0.1):
                columns[:] = [pick(["7 AS c1", "'x' AS c1", "NULL AS c1", "1.5 AS c1"])]
                names.clear(); names["c1"] = "int"
        elif form == "group":
            keys = [pick(["int", "text", "text", "bool"]) for _ in range(self.random.randint(1, 2))]
            made = []
            for kind in keys:
                key = self.value(sources, kind, self.random.choice([0, 0, 1]))
                if not any(f"{s.alias}.{c}" in key or c in key for s in sources for c in s.columns):
                    found = self.column(sources, kind) or self.column(sources, "int") or self.column(sources, "text")
                    if found:
                        key = self.name(sources, *found)
                made.append(key)
                add(key, kind)
            for _ in range(self.random.randint(0, 3)):
                add(*self.aggregate(sources))
            how = pick(["text", "number", "alias"])
            tail = " GROUP BY " + ", ".join({"text": key, "number": str(i + 1), "alias": f"c{i + 1}"}[how] for i, key in enumerate(made))
            if self.chance(0.3):
                tail += f" HAVING {pick(['COUNT(*)', self.aggregate(sources)[0]])} {pick(['>', '<=', 'IS NOT NULL AND 3 >'])} {pick(['1', '2', '10'])}"
        elif form == "all":
            for _ in range(self.random.randint(1, 4)):
                add(*self.aggregate(sources))
        else:
            for _ in range(self.random.randint(1, 2)):
                kind = pick(kinds)
                add(self.value(sources, kind, 0), kind)
            add(*self.window(sources))
        made = f"SELECT {'DISTINCT ' if form == 'distinct' else ''}{', '.join(columns)} FROM {text}{where}{tail}"
        return made, names

    def statement(self):
        """A statement, and whether its rows have one order."""
        if self.chance(0.35):
            for _ in range(self.random.randint(1, 2)):
                text, columns = self.select(1, is_inner=True)
                name = self.alias("w")
                self.parts.append(Source(name, columns, {}, 500, text))
        made, columns = self.select(2)
        if self.chance(0.12):
            other, _ = self.select(1, width=list(columns.values()))
            made = f"{made} {self.random.choice(['UNION', 'UNION ALL', 'EXCEPT', 'INTERSECT'])} {other}"
        is_ordered = self.chance(0.4)
        if is_ordered:
            keys = list(range(1, len(columns) + 1))
            self.random.shuffle(keys)
            by = [f"{self.random.choice([str(k), f'c{k}'])}{self.random.choice(['', '', ' DESC', ' ASC', ' NULLS FIRST', ' DESC NULLS LAST'])}" for k in keys]
            made += " ORDER BY " + ", ".join(by)
            if self.chance(0.5):
                made += f" LIMIT {self.random.choice([1, 3, 10, 0])}" + (f" OFFSET {self.random.choice([1, 5])}" if self.chance(0.3) else "")
        if self.parts:
            made = "WITH " + ", ".join(f"{p.alias} AS ({p.text})" for p in self.parts) + " " + made
        return made, is_ordered


# --- the comparison

def plain(value):
    """A value of DuckDB as JSON would have it."""
    if isinstance(value, decimal.Decimal):
        return float(value)
    return value


def key(row):
    """What rows are sorted by: floats without their last digits, and integers exactly."""
    def part(value):
        if value is None:
            return (0, "")
        if isinstance(value, bool):
            return (1, str(value))
        if isinstance(value, float):
            return (2, repr(int(value)) if math.isfinite(value) and value == int(value) else f"{value:.9g}")
        return (2, repr(value)) if isinstance(value, int) else (3, str(value))
    return [part(value) for value in row]


def same(ours, theirs):
    if isinstance(ours, bool) or isinstance(theirs, bool):
        return ours is theirs
    if isinstance(ours, (int, float)) and isinstance(theirs, (int, float)):
        if isinstance(ours, int) and isinstance(theirs, int):
            return ours == theirs
        if math.isnan(theirs) or math.isinf(theirs):
            return ours is None or ours == theirs
        return math.isclose(ours, theirs, rel_tol=TOLERANCE, abs_tol=1e-12)
    if ours is None and isinstance(theirs, float) and not math.isfinite(theirs):
        return True  # JSON has no NaN and no infinity
    return ours == theirs


def difference(ours, theirs, is_ordered):
    theirs = [tuple(plain(v) for v in row) for row in theirs]
    if len(ours) != len(theirs):
        return f"{len(ours)} rows, DuckDB {len(theirs)}"
    for attempt in ((lambda rows: rows), (lambda rows: sorted(rows, key=key))):
        first, second = attempt(ours), attempt(theirs)
        wrong = next(((a, b) for a, b in zip(first, second) if len(a) != len(b) or not all(map(same, a, b))), None)
        if wrong is None:
            return None
        if is_ordered:
            break
    return f"{wrong[0]}, DuckDB {wrong[1]}"


def asked(hta, statement, source):
    """The rows of hta, or its reason to refuse."""
    run = subprocess.run([hta, "query", statement, source, "--format", "json"], capture_output=True, text=True)
    if run.returncode == 0:
        return [tuple(row.values()) for row in json.loads(run.stdout)], None
    return None, f"{run.returncode}: {(run.stderr.strip().splitlines() or [''])[0]}"


class Server:
    """`hta mcp` on one results folder."""

    def __init__(self, hta, folder):
        self.process = subprocess.Popen([hta, "mcp", folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "random", "version": "1"}}
        self.call("initialize", about)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def call(self, method, params):
        self.send({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        while True:
            message = json.loads(self.process.stdout.readline())
            if message.get("id") == 1:
                return message["result"]

    def asked(self, statement):
        """The rows of the tool `sql`, or its reason to refuse."""
        arguments = {"statement": statement, "limit": 1000, "max_bytes": 100_000}
        content = self.call("tools/call", {"name": "sql", "arguments": arguments})["structuredContent"]
        if content["status"] != "answered":
            return None, f"2: {content.get('reason', content['status'])}"
        if "cursor" in content:
            return None, "2: the rows are on several pages"
        return [tuple(row) for row in content["answer"]["rows"]], None

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def drawn_statements(connection, wanted, seed, counts):
    """Statements that DuckDB answers, with whether their rows have an order, and its rows."""
    names = connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
    tables = [Table(connection, name) for (name,) in sorted(names)]
    tables = [table for table in tables if table.rows <= MOST_OF_TABLE]
    tables += [table for table in tables if table.name in OFTEN] * 4
    drawn = []
    while len(drawn) < wanted:
        seed += 1
        statement, is_ordered = Writer(tables, seed).statement()
        try:
            drawn.append((statement, is_ordered, connection.execute(statement).fetchmany(MOST_ROWS)))
        except duckdb.Error:
            counts["not valid in DuckDB, drawn again"] += 1
    return drawn


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", help="folders that `hta analyze` left, each with =TRACES if these are asked, too")
    parser.add_argument("--hta", default=str(ROOT / "target/release/hta"), help="the program [target/release/hta]")
    parser.add_argument("--count", type=int, default=200, help="statements in all [200]")
    parser.add_argument("--seed", type=int, default=1, help="of the first statement [1]")
    parser.add_argument("--most-refused", type=float, default=10.0, help="percent that may be refused [10]")
    parser.add_argument("-v", "--verbose", action="store_true", help="reasons of refused statements, with one of each")
    arguments = parser.parse_args()
    scratch = tempfile.TemporaryDirectory(prefix="hta-random-statements-")
    counts, refused, examples, failures = Counter(), Counter(), {}, []

    def judged(source, drawn, answers):
        for (statement, is_ordered, rows), (ours, reason) in zip(drawn, answers):
            if reason:
                counts["refused"] += 1
                refused[reason[:90]] += 1
                examples.setdefault(reason[:90], statement)
                found = None if reason.startswith("2: ") else f"ended with {reason}"
            else:
                found = difference(ours, rows, is_ordered)
                counts["equal" if found is None else "different"] += 1
                counts["equal, with rows"] += bool(rows) and found is None
            if found:
                failures.append(f"differs: {found[:300]}\n    hta query {json.dumps(statement)} {source}")

    for number, given in enumerate(arguments.results):
        folder, _, traces = given.partition("=")
        made = Path(scratch.name) / str(number)
        made.mkdir()
        connection = connected(arguments.hta, Path(folder), made)
        wanted = arguments.count // len(arguments.results)
        drawn = drawn_statements(connection, wanted, arguments.seed * 1_000_000 + number * 100_000, counts)
        with ThreadPoolExecutor(2) as pool:
            for source in [folder, traces] if traces else [folder]:
                judged(source, drawn, pool.map(lambda d: asked(arguments.hta, d[0], source), drawn))
        short = [d for d in drawn if len(d[2]) <= 50]
        server = Server(arguments.hta, folder)
        judged(f"{folder} (MCP)", short, [server.asked(d[0]) for d in short])
        server.stop()
    for what, count in counts.items():
        print(f"{count:>6}  {what}")
    if arguments.verbose:
        for reason, count in refused.most_common():
            print(f"{count:>6}  {reason}\n          {examples[reason]}")
    for failure in failures:
        print(failure)
    part = 100 * counts["refused"] / max(1, counts["refused"] + counts["equal"] + counts["different"])
    if part > arguments.most_refused:
        print(f"too many are refused: {part:.1f} %")
    return 1 if failures or part > arguments.most_refused else 0


if __name__ == "__main__":
    sys.exit(main())
