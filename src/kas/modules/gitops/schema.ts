import { type GitopsBlock, gitopsSchema } from '../../../proto/gitops/schema.ts'
import type { BlockSchema } from '../../agent-config/module-schema.ts'

/** `gitops` of an agent's configuration. Unknown keys are refused: a misspelt restriction would permit too much. */
export const gitopsBlock: BlockSchema<typeof gitopsSchema> = {
  key: 'gitops',
  schema: gitopsSchema,
  maxBytes: Number.POSITIVE_INFINITY, // the schema bounds it
  whenAbsent: {},
  refusesUnknown: true,
  ownFile: 'gitops.yaml',
  forStock,
}

/**
 * Returns the block for stock agents, which know neither all keys nor all kinds of paths. Sources that they would
 * misunderstand are left out: rendered ones, and those restricted to namespaces or an account. So are sources whose
 * drift they would correct, although its mode or a rule says otherwise.
 */
function forStock({ manifest_projects: sources = [] }: GitopsBlock): object {
  const known = sources.flatMap((each) => {
    if (each.kustomize || each.helm || each.namespaces || each.access_as) return []
    const {
      name: _,
      drift = {},
      resource_inclusions: inclusions,
      resource_exclusions: exclusions,
      paths,
      ...rest
    } = each
    if (inclusions || exclusions) return []
    const { mode = 'correct', ignore = [] } = drift
    if (mode !== 'correct' || ignore.length > 0) return []
    const globs = paths?.filter(({ glob }) => glob !== undefined)
    if (paths && globs?.length !== paths.length) return []
    return [{ ...rest, ...(globs ? { paths: globs } : {}) }]
  })
  return { manifest_projects: known }
}
