// What shows each section of the page, by its name. A section has grids of data; its charts and its tables are of the same grids.

const sections = {
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
