/** Annotation by which people approve a plan of a source, on the object that reports it (doc/guide/gitops.md). */
export const approveAnnotation = 'agent.gitlab.com/approve'
