import { kindKey, parseKindKey } from '../../../kubernetes/kind.ts'
import { builtInKinds } from '../../../kubernetes/kind-words.ts'
import type { ConfigWarning } from '../../../lib/config.ts'
import { nearestName } from '../../../lib/nearest-name.ts'
import { type FieldPath, type PathPart, parseFieldPath, pathText } from '../../../proto/gitops/field-path.ts'
import type { DriftBlock, GitopsBlock, IgnoreBlock } from '../../../proto/gitops/schema.ts'
import type { AgentConfigurationFile } from '../../agent-config/agent-config-file.ts'
import { commonTypes, type ListType, typesOfKind } from './known-lists.ts'
import type { Remark } from './named-files.ts'

/**
 * Checks `drift.ignore` of a usable configuration, as far as the kinds of Kubernetes itself are known here.
 *
 * @returns `warnings`: parts of rules without effect; `notes`: rules that cover whole objects
 */
export function ignoreRemarks({ blocks }: Pick<AgentConfigurationFile, 'blocks'>): {
  readonly warnings: readonly ConfigWarning[]
  readonly notes: readonly Remark[]
} {
  const { drift, manifest_projects: sources = [] } = JSON.parse(blocks.get('gitops') ?? '{}') as GitopsBlock
  const common = JSON.stringify(drift)
  const own = sources.flatMap((source, i): [string, DriftBlock | undefined][] =>
    JSON.stringify(source.drift) === common ? [] : [[`gitops.manifest_projects[${i}].drift`, source.drift]],
  )
  const rules = [['gitops.drift', drift] as const, ...own].flatMap(([at, block]) =>
    (block?.ignore ?? []).map((rule, i) => [`${at}.ignore[${i}]`, rule] as const),
  )
  return {
    warnings: rules.flatMap(([at, rule]) => [...kindWarnings(at, rule), ...pathWarnings(at, rule)]),
    notes: rules.flatMap(([at, rule]) => wideNotes(at, rule)),
  }
}

function kindWarnings(at: string, { kinds = [] }: IgnoreBlock): ConfigWarning[] {
  return kinds.flatMap((pattern, i): ConfigWarning[] => {
    const hint = kindHint(pattern)
    return hint === undefined ? [] : [{ kind: 'unused', key: `${at}.kinds[${i}]`, hint }]
  })
}

const known = builtInKinds.map(({ key }) => parseKindKey(key))
/** Further kinds of Kubernetes, which some versions serve. */
const further: readonly string[] = [
  'ClusterTrustBundle',
  'DeviceClass',
  'IPAddress',
  'MutatingAdmissionPolicy',
  'MutatingAdmissionPolicyBinding',
  'PodCertificateRequest',
  'ResourceClaim',
  'ResourceClaimTemplate',
  'ResourceSlice',
  'ServiceCIDR',
  'ValidatingAdmissionPolicyBinding',
  'VolumeAttributesClass',
]
const groups = [...new Set(known.map(({ group }) => group))].filter((group) => group !== '')

/** Returns what is wrong with a pattern that is probably misspelt. The kinds of other groups are not known here. */
function kindHint(pattern: string): string | undefined {
  if (pattern.includes('*')) return undefined
  const { group, kind } = parseKindKey(pattern)
  const isAnyGroup = !pattern.includes('/')
  if (group.includes('.') && !groups.includes(group)) return undefined
  if (group === 'core') return `the group of ${kind} has an empty name: write "/${kind}", or "${kind}" for any group`
  if (group !== '' && !groups.includes(group)) {
    const near = nearestName(group, groups)
    return `Kubernetes has no group "${group}"${near === undefined ? '' : `, did you mean ${near}/${kind}?`}`
  }
  const names = known.filter((one) => isAnyGroup || one.group === group).map((one) => one.kind)
  const near = [...names, ...further].includes(kind) ? undefined : nearestName(kind, names)
  // people rarely miss the first letter: VerticalPodAutoscaler is no HorizontalPodAutoscaler
  if (near === undefined || near[0]?.toLowerCase() !== kind[0]?.toLowerCase()) return undefined
  const meant = `did you mean ${isAnyGroup ? near : pattern.slice(0, -kind.length) + near}?`
  return `Kubernetes has no such kind, ${meant}${isAnyGroup ? ' A custom kind is written with its group' : ''}`
}

function pathWarnings(at: string, { kinds, paths = [] }: IgnoreBlock): ConfigWarning[] {
  return paths.flatMap((text, i): ConfigWarning[] => {
    const path = parseFieldPath(text)
    const hint = 'problem' in path ? path.problem : pathHint(path, kinds)
    return hint === undefined ? [] : [{ kind: 'unused', key: `${at}.paths[${i}]`, hint }]
  })
}

/** Returns why a path leads to no field that a manager can own by itself. */
function pathHint(path: FieldPath, kinds: readonly string[] | undefined): string | undefined {
  const { parts } = path
  const [top, map] = parts.map(nameOf)
  if (top === 'status') return 'a source applies no status, and drift does not compare it'
  const isKeyOfMap = top === 'metadata' && (map === 'annotations' || map === 'labels')
  if (isKeyOfMap && parts[0]?.kind === 'segment' && parts.length > 3) {
    const key = parts.slice(2).map(nameOf).join('~1')
    return `a "/" in a key is written "~1" in a JSON Pointer: /metadata/${map}/${key}`
  }
  let place = ''
  for (const [i, part] of parts.entries()) {
    const type = place === '' ? undefined : listType(place, kinds)
    const hint = type === undefined ? undefined : hintBelow(type, { path, i, part })
    if (hint !== undefined) return hint
    if (!isItem(part, type)) place = place === '' ? nameOf(part) : `${place}.${nameOf(part)}`
  }
  return undefined
}

/** Says why a part below a list or map of some type names nothing; undefined: it does. */
function hintBelow(
  type: ListType,
  { path, i, part }: { readonly path: FieldPath; readonly i: number; readonly part: PathPart },
): string | undefined {
  if (i > 1 && isItem(path.parts[i - 1], type) && type !== 'atomic') return undefined // inside an item
  const list = pathText(path, i)
  if (type === 'atomic') return `one manager owns all of ${list}, and conflicts name no more than that: write ${list}`
  if (type === 'set') return `${list} is a set, whose values never conflict, so that an apply cannot leave one out`
  if (part.kind === 'segment' && !isItem(part, type)) return `${list} is a list: write the index of an item behind it`
  if (!isItem(part, type)) return `${list} is a list: write ${list}[*], or an item by its key (${type})`
  const keys = part.kind === 'key' ? Object.keys(part.key) : []
  const other = keys.find((key) => !type.split(',').includes(key))
  return other && `the items of ${list} are known by ${type.replace(',', ' and ')}, not by ${other}`
}

/** Returns the type of a field by its path without items; undefined: it is no such field, or not known. */
function listType(place: string, kinds: readonly string[] | undefined): ListType | undefined {
  const common = Object.hasOwn(commonTypes, place) ? commonTypes[place] : undefined
  if (common !== undefined || !kinds) return common
  const types = kinds.map((pattern) => {
    const key = known.find(({ group, kind }) => pattern === kind || pattern === `${group}/${kind}`)
    return key && typesOfKind[kindKey(key.group, key.kind)]?.[place]
  })
  return types.every((type) => type === types[0]) ? types[0] : undefined
}

function isItem(part: PathPart | undefined, type: ListType | undefined): boolean {
  if (part?.kind === 'segment') return type !== undefined && /^\d+$/.test(part.name)
  return part !== undefined && part.kind !== 'name'
}

function nameOf(part: PathPart): string {
  return 'name' in part ? part.name : ''
}

/** Texts that follow the key of a rule that covers whole objects: nothing of them would follow Git. */
function wideNotes(at: string, { paths, managers = [] }: IgnoreBlock): Remark[] {
  const loss = 'a commit that changes such a field changes nothing in the cluster'
  if (!paths) {
    const whose = managers.slice(0, 3).join(', ')
    return [{ key: at, text: `covers whole objects: every field that ${whose} owns, so that ${loss}. Add paths` }]
  }
  return paths.flatMap((text, i) => {
    const path = parseFieldPath(text)
    if ('problem' in path || path.parts.length > 1) return []
    const what = path.parts.length === 0 ? 'whole objects' : `all of ${text}`
    const whose = managers.length > 0 ? managers.slice(0, 3).join(', ') : 'another manager'
    const key = `${at}.paths[${i}]`
    return [{ key, text: `covers ${what}: every field there that ${whose} owns, so that ${loss}. Name longer paths` }]
  })
}
