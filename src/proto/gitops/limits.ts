/** Bounds that kas and agentk share (doc/guide/gitops.md). This file imports nothing. */

/** of an agent */
export const maxSources = 100
/** of one source */
export const maxNamespaces = 20
export const maxPaths = 100
export const maxFiles = 1000
export const maxFileBytes = 5 * 1024 * 1024
/** of all files of one reconciliation */
export const maxRoundBytes = 20 * 1024 * 1024
/** of an agent */
export const maxObjects = 10_000
/** of an object, as JSON */
export const maxObjectBytes = 1.5 * 1024 * 1024
/** of a branch's name, in characters; a longer one is cut */
export const maxBranchLength = 1000
/** of a SourceState */
export const maxStateBytes = 64 * 1024
