import { driftFeature } from '../../../proto/gitops/features.ts'
import {
  type ConfiguredSource,
  type GitopsBlock,
  gitopsSchema,
  type SourceBlock,
} from '../../../proto/gitops/schema.ts'
import type { BlockSchema } from '../../agent-config/module-schema.ts'

/** `gitops` of an agent's configuration. Unknown keys are refused: a misspelt restriction would permit too much. */
export const gitopsBlock: BlockSchema<typeof gitopsSchema> = {
  key: 'gitops',
  schema: gitopsSchema,
  maxBytes: Number.POSITIVE_INFINITY, // the schema bounds it
  whenAbsent: {},
  refusesUnknown: true,
  ownFile: 'gitops.yaml',
  forAgents: ({ preview: _, manifest_projects: sources, ...rest }) => ({
    ...rest,
    ...(sources && { manifest_projects: sources.map(sentSource) }),
  }),
  older: { feature: driftFeature, block: blockOfOlder },
  forStock,
}

/** Returns a source as it is sent to agents: `preview` is for kas alone. */
export function sentSource({ preview: _, ...source }: ConfiguredSource): SourceBlock {
  return source
}

/** In the place of a key's value: an agentk refuses a source whose value it cannot read, and names the value. */
const refusedByOlder = 'none: an agentk that knows drift is needed, so update it'

/**
 * Returns the block for an agentk that does not know `drift`. It refuses each source that has one, and names it. A
 * source that were left out would have left the configuration for that agentk, which might delete all its objects.
 *
 * @returns undefined: no source has one
 */
function blockOfOlder({ drift, manifest_projects: sources = [] }: GitopsBlock): object | undefined {
  if (!drift && !sources.some((source) => source.drift)) return undefined
  const known = sources
    .map(sentSource)
    .map(({ drift: own, ...source }) => (own === undefined ? source : { ...source, reconcile_timeout: refusedByOlder }))
  return { manifest_projects: known }
}

/** Time after which a stock agent applies again what has changed in the cluster. s */
const stockPeriodSeconds = 300

/**
 * Returns the block for stock agents, which know neither all keys nor all kinds of paths. Sources that they would
 * misunderstand are left out: rendered ones, and those restricted to namespaces or an account. So are sources whose
 * drift they would treat otherwise: they correct it after five minutes, whatever a rule says, and remove no added field.
 */
function forStock({ manifest_projects: sources = [] }: GitopsBlock): object {
  const known = sources.map(sentSource).flatMap((each) => {
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
    const { mode = 'correct', after = '0s', ignore = [], added_by: addedBy = [] } = drift
    if (mode !== 'correct' || ignore.length + addedBy.length > 0) return []
    if (Number.parseFloat(after) > stockPeriodSeconds) return []
    const globs = paths?.filter(({ glob }) => glob !== undefined)
    if (paths && globs?.length !== paths.length) return []
    return [{ ...rest, ...(globs ? { paths: globs } : {}) }]
  })
  return { manifest_projects: known }
}
