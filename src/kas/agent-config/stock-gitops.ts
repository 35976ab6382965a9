import type { GitopsBlock } from '../../proto/gitops/schema.ts'

/**
 * What stock agents are sent: they know neither all keys nor all kinds of paths. A source that they would take for
 * something else, as it is rendered or kept to namespaces or to an account, is left out.
 */
export function stockGitops({ manifest_projects: sources = [] }: GitopsBlock): object {
  const known = sources.flatMap((each) => {
    if (each.kustomize || each.helm || each.namespaces || each.access_as) return []
    const { name: _, resource_inclusions: inclusions, resource_exclusions: exclusions, paths, ...rest } = each
    if (inclusions || exclusions) return []
    const globs = paths?.filter(({ glob }) => glob !== undefined)
    if (paths && globs?.length !== paths.length) return []
    return [{ ...rest, ...(globs ? { paths: globs } : {}) }]
  })
  return { manifest_projects: known }
}
