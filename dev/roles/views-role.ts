import type { VendorRule } from '../../src/agentk/health/custom/vendors.ts'
import { roleRules } from '../../src/kas/modules/views/cli/views-role.ts'

/** Kinds whose names in paths are no regular plural. */
const irregular: Readonly<Record<string, string>> = {
  Analysis: 'analyses',
  ApigeeRedis: 'apigeeredis',
  EventBus: 'eventbus',
  MatchableHttpGateway: 'httpgateways',
  MatchableTcpGateway: 'tcpgateways',
  MonoVertex: 'monovertices',
  Vertex: 'vertices',
}

/** Returns a kind's name in paths, as authors of CustomResourceDefinitions form it. */
export function pluralOf(kind: string): string {
  const own = irregular[kind]
  if (own) return own
  const name = kind.toLowerCase()
  if (/(?:logs|rules|settings)$/.test(name)) return name
  if (/(?:[sxz]|[cs]h)$/.test(name)) return `${name}es`
  return /[^aeiou]y$/.test(name) ? `${name.slice(0, -1)}ies` : `${name}s`
}

type Rule = Pick<VendorRule, 'kind' | 'known'>

export interface VendorRights {
  /** names in paths by API group, both in order */
  readonly groups: ReadonlyMap<string, readonly string[]>
  /** rules for kinds that no role can name, since each cluster has its own */
  readonly unnamed: readonly string[]
}

/** Returns the rights to list and watch the kinds of rules. */
export function rightsFor(rules: readonly Rule[]): VendorRights {
  const groups = new Map<string, Set<string>>()
  const unnamed: string[] = []
  for (const { kind, known } of rules) {
    const [group = '', name = ''] = kind.split('/')
    const kinds = name.includes('*') ? known : [name]
    if (group.includes('*') || kinds.length === 0) {
      unnamed.push(kind)
      continue
    }
    const names = groups.get(group) ?? new Set()
    groups.set(group, names)
    for (const one of kinds) names.add(pluralOf(one))
  }
  const sorted = [...groups].sort(([one], [other]) => (one < other ? -1 : 1))
  return { groups: new Map(sorted.map(([group, names]) => [group, [...names].sort()])), unnamed: unnamed.sort() }
}

/** Returns `rules` of the role `agentk-views-vendors`, in the chart's form. */
export function vendorsRules(rules: readonly Rule[]): string {
  const { groups, unnamed } = rightsFor(rules)
  return `# Written by \`npm run roles\` from src/agentk/health/vendors. Of these rules each cluster has kinds of its own, which no
# role can name beforehand; \`kas views role\` prints them:
${unnamed.map((kind) => `#   ${kind}\n`).join('')}# Crossplane and Config Connector bring roles for theirs, crossplane-view and cnrm-viewer, which may be bound instead.
${roleRules(groups)}`
}
