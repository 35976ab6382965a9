/**
 * Feature that agentk names when it asks for its configuration: it reads `drift` of a source. An agentk without it would
 * correct objects whose drift is only to be reported.
 */
export const driftFeature = 'gitops-drift'
