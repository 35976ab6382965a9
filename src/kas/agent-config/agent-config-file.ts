import { fromJson, type JsonValue } from '@bufbuild/protobuf'
import { type ConfigWarning, unknownKeyHints } from '../../lib/config.ts'
import { KasError } from '../../lib/errors.ts'
import { type ConfigurationFile, ConfigurationFileSchema } from '../../proto/gen/agentcfg_pb.ts'
import type { Impersonation } from '../../proto/http/http-message.ts'
import { type AgentConfigurationTree, type CiAccessTree, withBlocks } from './agent-config-schema.ts'
import { firstKasName } from './kas-names.ts'
import { type BlockValue, blockValue, type FileBeside, forStock, jsonOf, refuseUnknown } from './module-blocks.ts'
import { blocksOf, type ModuleSchema } from './module-schema.ts'
import { parseFile } from './parse-file.ts'

export type CiAccessAs =
  | { readonly as: 'agent' }
  | { readonly as: 'ci_job' }
  | { readonly as: 'impersonate'; readonly impersonate: Impersonation }
  | { readonly as: 'unknown'; readonly found: string }

/** One entry of `ci_access`. */
export interface CiAccessEntry {
  readonly accessAs: CiAccessAs
  /** patterns with `*`; empty: any job */
  readonly environments: readonly string[]
  readonly defaultNamespace: string
  /** reason why the entry grants nothing although it names a job's project: it has a condition that kas cannot check */
  readonly refusal?: string | undefined
}

export interface UserAccess {
  readonly accessAs: { readonly as: 'agent' | 'user' | 'none' } | { readonly as: 'unknown'; readonly found: string }
  /** paths in lower case, in the order of the file */
  readonly projects: readonly string[]
  readonly groups: readonly string[]
}

/** Content of an agent's configuration file. */
export interface AgentConfigurationFile {
  /** keys with a protobuf number; `userAccess` stays unset, since it is never sent to agents */
  readonly file: ConfigurationFile
  /** entries by full path in lower case */
  readonly ciAccess: {
    readonly projects: ReadonlyMap<string, CiAccessEntry>
    readonly groups: ReadonlyMap<string, CiAccessEntry>
  }
  readonly userAccess: UserAccess
  /** the whole file, with its keys and values as written, for GitLab */
  readonly raw: Readonly<Record<string, unknown>>
  /** blocks of modules, as JSON, by key */
  readonly blocks: ReadonlyMap<string, string>
  /** keys without effect; those that could widen access if they were overlooked are also a `refusal` */
  readonly warnings: readonly ConfigWarning[]
}

/** Bound of projects, and of groups, that count (doc/reference/gitlab-contract.md 2.3, 4.3). */
export const maxAccessEntries = 500

/** Bound of reported `access_as: {}`; further ones are a number. */
const maxProblems = 20

/**
 * Reads an agent's configuration file; an empty or absent one is an empty configuration.
 *
 * @param file - name for errors
 * @param schemas - schemas of modules
 * @param beside - existing files beside it
 * @throws KasError CONFIGURATION_INVALID with every problem
 * @see doc/reference/tunnel-protocol.md 7.2, doc/reference/gitlab-contract.md 9.3 no. 23
 */
export function parseAgentConfiguration(
  file: string,
  bytes: Uint8Array,
  schemas: readonly ModuleSchema[] = [],
  beside: readonly FileBeside[] = [],
): AgentConfigurationFile {
  const blocks = blocksOf(schemas)
  const { value: tree, raw, warnings } = parseFile(file, bytes, withBlocks(blocks))
  refuseUnknown(file, blocks, warnings)
  const read = blocks.map((block) => ({ block, value: blockValue(block, { file, tree, beside }) }))
  const unknown = unknownBelow(warnings)
  refuseEmptyAccessAs(file, { tree, unknown, warnings })
  return {
    file: toProto(tree, read, unknown),
    ciAccess: {
      projects: ciAccessEntries(tree.ci_access?.projects, 'ci_access.projects', unknown),
      groups: ciAccessEntries(tree.ci_access?.groups, 'ci_access.groups', unknown),
    },
    userAccess: userAccess(tree, unknown),
    raw,
    blocks: jsonOf(file, read),
    warnings: [...warnings, ...tooMany(tree), ...listedTwice(tree), ...kasNames(tree), ...managedResources(tree)],
  }
}

/**
 * Refuses `access_as: {}`, which is a mistake. One with only an unknown key is accepted here, and refused at each use.
 */
function refuseEmptyAccessAs(
  file: string,
  {
    tree,
    unknown,
    warnings,
  }: { tree: AgentConfigurationTree; unknown: UnknownBelow; warnings: readonly ConfigWarning[] },
): void {
  const { ci_access: ci, user_access: user } = tree
  const problems = [
    ...(ci?.projects ?? []).map((entry, i) => ({
      accessAs: entry.access_as,
      at: `ci_access.projects[${i}].access_as`,
    })),
    ...(ci?.groups ?? []).map((entry, i) => ({ accessAs: entry.access_as, at: `ci_access.groups[${i}].access_as` })),
    { accessAs: user?.access_as, at: 'user_access.access_as' },
  ]
    .filter(({ accessAs, at }) => accessAs && Object.keys(accessAs).length === 0 && !firstBelow(at, unknown))
    .map(
      ({ at }) =>
        `${file}: ${at}: found nothing, allowed: ${at.startsWith('ci') ? 'agent, impersonate or ci_job' : 'agent or user'}`,
    )
  if (problems.length === 0) return
  const more = problems.length > maxProblems ? [`and ${problems.length - maxProblems} more`] : []
  const hints = unknownKeyHints(warnings).map((hint) => `${file}: ${hint}`)
  const detail = [...problems.slice(0, maxProblems), ...more, ...hints].join('; ')
  throw new KasError({ code: 'CONFIGURATION_INVALID', detail })
}

/** First unknown key below each place: a file may have thousands of both. */
type UnknownBelow = ReadonlyMap<string, string>

/** Depth of `ci_access.projects[0].access_as`, the deepest place that is read. */
const maxPlaceDepth = 3

function unknownBelow(warnings: readonly ConfigWarning[]): UnknownBelow {
  const below = new Map<string, string>()
  for (const { kind, key, isEmpty } of warnings) {
    if (kind !== 'unknown' || isEmpty) continue
    let dot = key.indexOf('.')
    for (let depth = 0; dot >= 0 && depth < maxPlaceDepth; depth++) {
      const place = key.slice(0, dot)
      if (!below.has(place)) below.set(place, key.slice(dot + 1))
      dot = key.indexOf('.', dot + 1)
    }
  }
  return below
}

function firstBelow(at: string, unknown: UnknownBelow): string | undefined {
  return unknown.get(at)
}

function ciAccessEntries(
  entries: readonly CiAccessTree[] | undefined,
  at: string,
  unknown: UnknownBelow,
): ReadonlyMap<string, CiAccessEntry> {
  const first = (entries ?? []).slice(0, maxAccessEntries)
  return new Map(first.map((entry, i) => [entry.id.toLowerCase(), ciAccessEntry(entry, `${at}[${i}]`, unknown)]))
}

function ciAccessEntry(entry: CiAccessTree, at: string, unknown: UnknownBelow): CiAccessEntry {
  const unknownAs = firstBelow(`${at}.access_as`, unknown)
  const unknownKey = unknownAs === undefined ? firstBelow(at, unknown) : undefined
  const kasName = firstKasName(entry)
  const refusal = unknownKey
    ? `unknown key ${unknownKey}, which may be a restriction`
    : entry.protected_branches_only
      ? 'protected_branches_only, which kas cannot check without GitLab'
      : kasName && `${kasName.key}: ${kasName.reason}`
  return {
    accessAs: unknownAs === undefined ? ciAccessAs(entry) : { as: 'unknown', found: unknownAs },
    environments: entry.environments ?? [],
    defaultNamespace: entry.default_namespace ?? '',
    refusal,
  }
}

function ciAccessAs({ access_as: accessAs }: CiAccessTree): CiAccessAs {
  if (accessAs?.ci_job) return { as: 'ci_job' }
  if (!accessAs?.impersonate) return { as: 'agent' }
  const { username, groups = [], uid = '', extra = [] } = accessAs.impersonate
  return { as: 'impersonate', impersonate: { username, groups, uid, extra } }
}

function userAccess(tree: AgentConfigurationTree, unknown: UnknownBelow): UserAccess {
  const { access_as: accessAs, projects = [], groups = [] } = tree.user_access ?? {}
  const found = firstBelow('user_access.access_as', unknown)
  const paths = (entries: readonly { id: string }[], kind: string) =>
    entries
      .slice(0, maxAccessEntries)
      .filter((_, i) => !firstBelow(`user_access.${kind}[${i}]`, unknown))
      .map((entry) => entry.id.toLowerCase())
  return {
    accessAs:
      found === undefined
        ? { as: accessAs?.agent ? 'agent' : accessAs?.user ? 'user' : 'none' }
        : { as: 'unknown', found },
    projects: [...new Set(paths(projects, 'projects'))],
    groups: [...new Set(paths(groups, 'groups'))],
  }
}

function tooMany(tree: AgentConfigurationTree): ConfigWarning[] {
  const lists = {
    'ci_access.projects': tree.ci_access?.projects,
    'ci_access.groups': tree.ci_access?.groups,
    'user_access.projects': tree.user_access?.projects,
    'user_access.groups': tree.user_access?.groups,
  }
  return Object.entries(lists)
    .filter(([, list]) => (list?.length ?? 0) > maxAccessEntries)
    .map(([key]) => ({ kind: 'unused', key, hint: `only the first ${maxAccessEntries} count` }))
}

/** Finds entries with the path of a later one: as with GitLab the last entry counts, which may be the wider one. */
function listedTwice(tree: AgentConfigurationTree): ConfigWarning[] {
  const { projects = [], groups = [] } = tree.ci_access ?? {}
  const overruled = (entries: readonly CiAccessTree[], at: string) => {
    const lastOf = new Map(entries.map(({ id }, i) => [id.toLowerCase(), i]))
    return entries.flatMap(({ id }, i): ConfigWarning[] => {
      if (lastOf.get(id.toLowerCase()) === i) return []
      return [{ kind: 'unused', key: `${at}[${i}]`, hint: 'a later entry has the same id' }]
    })
  }
  return [...overruled(projects, 'ci_access.projects'), ...overruled(groups, 'ci_access.groups')]
}

/** Finds entries with a name that only kas may give, each by its first such name. */
function kasNames({ ci_access: ci }: AgentConfigurationTree): ConfigWarning[] {
  const named = (entries: readonly CiAccessTree[], at: string) =>
    entries.slice(0, maxAccessEntries).flatMap((entry, i): ConfigWarning[] => {
      const found = firstKasName(entry)
      return found ? [{ kind: 'unused', key: `${at}[${i}].${found.key}`, hint: found.reason }] : []
    })
  return [...named(ci?.projects ?? [], 'ci_access.projects'), ...named(ci?.groups ?? [], 'ci_access.groups')]
}

/** Bounds of a sentence: listed places, and characters of each. */
const maxNamed = { places: 5, characters: 100 }

/**
 * Finds entries with managed resources, in one warning for the file. GitLab asks kas before such a job begins. kas does
 * not serve that, so the job fails (doc/guide/gitlab.md "What kas does not serve").
 */
function managedResources({ ci_access: ci }: AgentConfigurationTree): ConfigWarning[] {
  const places = [
    ...(ci?.projects ?? []).map((entry, i) => ({ entry, of: `project ${entry.id}`, at: `projects[${i}]` })),
    ...(ci?.groups ?? []).map((entry, i) => ({ entry, of: `group ${entry.id}`, at: `groups[${i}]` })),
    ...(ci?.instance ? [{ entry: ci.instance, of: 'any project', at: 'instance' }] : []),
  ].filter(({ entry }) => entry.resource_management?.enabled)
  const [first] = places
  if (!first) return []
  const named = places.slice(0, maxNamed.places).map(({ of }) => of.slice(0, maxNamed.characters))
  const more = places.length > named.length ? ` and ${places.length - named.length} more` : ''
  const hint = `kas makes no Kubernetes resources for environments, so that GitLab fails jobs with an environment before they begin: of ${named.join(', ')}${more}. Write enabled: false there, and make what they need by gitops or in the job`
  return [{ kind: 'unserved', key: `ci_access.${first.at}.resource_management.enabled`, hint }]
}

/** Returns the configuration for agents, without entries that cannot be used because of an unknown `access_as`. */
function toProto(
  tree: AgentConfigurationTree,
  blocks: readonly BlockValue[],
  unknown: UnknownBelow,
): ConfigurationFile {
  const usable = (list: readonly CiAccessTree[] | undefined, at: string) =>
    (list ?? []).filter((_, i) => firstBelow(`${at}[${i}].access_as`, unknown) === undefined)
  const { user_access: _, ...sent } = tree
  const ciAccess = tree.ci_access && {
    projects: usable(tree.ci_access.projects, 'ci_access.projects'),
    groups: usable(tree.ci_access.groups, 'ci_access.groups'),
  }
  const core = Object.entries(sent).filter(([key]) => blocks.every(({ block }) => block.key !== key))
  const own = Object.fromEntries([...core, ...forStock(blocks)])
  const json = { ...own, ...(ciAccess ? { ci_access: ciAccess } : {}) }
  return fromJson(ConfigurationFileSchema, json as JsonValue, { ignoreUnknownFields: true })
}
