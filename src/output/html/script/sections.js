// What shows each section of the page, by its name. A section has grids of data; its charts and its tables are of the same grids.

import { compareSection } from "page/against.js";
import { flameSection } from "page/flame.js";
import { collectivesSection, stragglersSection, whatIfSection } from "page/sections/across.js";
import { breakdownSection, idleSection } from "page/sections/breakdown.js";
import { findingsSection } from "page/sections/causes.js";
import { kernelsSection, patternsSection } from "page/sections/kernels.js";
import { memorySection } from "page/sections/memory.js";
import { linesSection, modulesSection, opsSection } from "page/sections/operators.js";
import { healthSection, ranksSection } from "page/sections/recording.js";
import { criticalPathSection, iterationsSection, utilizationSection } from "page/sections/time.js";
import { timelineSection } from "page/timeline/section.js";

export const sections = {
  findings: findingsSection,
  health: healthSection,
  breakdown: breakdownSection,
  stragglers: stragglersSection,
  collectives: collectivesSection,
  idle: idleSection,
  kernels: kernelsSection,
  patterns: patternsSection,
  utilization: utilizationSection,
  "critical-path": criticalPathSection,
  memory: memorySection,
  ops: opsSection,
  modules: modulesSection,
  lines: linesSection,
  "what-if": whatIfSection,
  ranks: ranksSection,
  iterations: iterationsSection,
  timeline: timelineSection,
  flame: flameSection,
  compare: compareSection,
};
