/** Bounds that kas and agentk share (doc/guide/gitops.md). This file imports nothing. */

/** sources of an agent */
export const maxSources = 100
/** namespaces of a source */
export const maxNamespaces = 20
/** paths of a source */
export const maxPaths = 100
/** files of a source */
export const maxFiles = 1000
/** bytes of such a file */
export const maxFileBytes = 5 * 1024 * 1024
/** bytes of all files of one reconciliation */
export const maxRoundBytes = 20 * 1024 * 1024
/** objects of an agent, and deletions of them that wait (`waiting_deletions`) */
export const maxObjects = 10_000
/** bytes of an object, as JSON */
export const maxObjectBytes = 1.5 * 1024 * 1024
/** characters of a branch's name; a longer one is cut */
export const maxBranchLength = 1000
/** bytes of a SourceState */
export const maxStateBytes = 64 * 1024
/** objects, or environments, in one list of a SourceState */
export const maxListed = 100
/** rules of one `ignore` */
export const maxIgnoreRules = 50
/** characters of one `drift`, as JSON: each source has it, also the one that `gitops` has for all */
export const maxDriftLength = 8 * 1024
/** A hold of an object may last so long: a forgotten one must not keep it away from Git for good. ms */
export const maxHoldMs = 7 * 24 * 3600_000
