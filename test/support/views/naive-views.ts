import type { ArgoStatus } from '../../../src/agentk/health/argo/health.ts'
import { severityOf } from '../../../src/agentk/health/kas/finding.ts'
import type { Opinion } from '../../../src/agentk/health/kas/opinion.ts'
import { countedOf, wordAbove } from '../../../src/agentk/health/kas/root-causes/counting.ts'
import { traitObject } from '../../../src/agentk/modules/views/store/object-record.ts'
import type { ObjectRecord } from '../../../src/agentk/modules/views/store/record.ts'
import { uidOf } from '../../../src/kubernetes/object.ts'
import type { ArgoWord, Query, QueryObject } from '../../../src/proto/views-json.ts'
import type { Outcome, World } from './view-world.ts'

const argoWords: readonly ArgoWord[] = ['', 'Healthy', 'Suspended', 'Progressing', 'Missing', 'Degraded', 'Unknown']
const kasWords: readonly ArgoWord[] = ['', 'Healthy', 'Suspended', 'Unknown', 'Missing', 'Progressing', 'Degraded']
const worst = (all: readonly number[]) => Math.max(0, ...all)

const labelled: Readonly<Record<string, (app: string | undefined) => boolean>> = {
  'app=one': (app) => app === 'one',
  'app notin (one)': (app) => app !== 'one',
  '!app': (app) => app === undefined,
}

const named: Readonly<Record<string, readonly string[]>> = {
  po: ['Pod'],
  deployments: ['apps/Deployment'],
  'apps/ReplicaSet': ['apps/ReplicaSet'],
  no: ['Node'],
  all: ['Pod', 'Service', 'apps/Deployment', 'apps/ReplicaSet', 'apps/StatefulSet'],
}

function isNamed({ kind, namespace, name }: ObjectRecord, object: QueryObject): boolean {
  if (!named[object.kind]?.includes(kind.key)) return false
  if (object.namespace && kind.isNamespaced && object.namespace !== namespace) return false
  return !object.name || object.name === name
}

const createdOf = ({ record }: { readonly record: ObjectRecord | undefined }) => record?.created
type Judging = Pick<Outcome, 'judged' | 'holds'> & Pick<World, 'verdict'>

interface NaiveNode {
  readonly id: string
  readonly record: ObjectRecord | undefined
  kind: string
  name: string
  readonly namespace: string
  parent: string
}

export interface NaivePage {
  readonly order: readonly string[]
  readonly counts: Readonly<Record<string, number>>
  readonly more: number
}

/** The rows of a view of `seen`, computed straight from the design, without optimization. */
export class NaiveViews {
  readonly #seen: ReadonlyMap<string, ObjectRecord>
  readonly #query: Query
  readonly nodes = new Map<string, NaiveNode>()
  readonly #judging: Judging
  readonly #words: readonly ArgoWord[]

  constructor(seen: readonly ObjectRecord[], query: Query, judging: Judging) {
    this.#seen = new Map(seen.map((record) => [record.uid, record]))
    this.#query = query
    this.#judging = judging
    this.#words = judging.verdict === 'kas' ? kasWords : argoWords
    for (const record of seen) if (this.#isInScope(record) && this.#isAskedFor(record)) this.#add(record)
    for (const node of this.nodes.values()) if (node.id.startsWith('o:')) this.#name(node)
  }

  page(id: string, limit: number): NaivePage | undefined {
    const bundle = /^b:(.*):([^:]*)$/.exec(id)
    const parent = bundle ? (bundle[1] as string) : id
    if (parent !== '' && !this.nodes.has(parent)) return undefined
    const isBundled = (kind: string) => this.#isBundled(parent, kind)
    if (bundle && !isBundled(bundle[2] as string)) return undefined
    const children = this.#children(parent).filter(({ kind }) => !bundle || kind === bundle[2])
    const entries = bundle ? children : children.filter(({ kind }) => !isBundled(kind))
    const sorted = entries.map((node) => ({ ...node, total: this.#total(node) }))
    for (const kind of new Set(bundle ? [] : children.map((node) => node.kind).filter(isBundled))) {
      const total = worst(children.filter((node) => node.kind === kind).map((node) => this.#total(node)))
      sorted.push({ id: `b:${parent}:${kind}`, record: undefined, kind, name: '', namespace: '', parent, total })
    }
    const isWorkload = (kind: string) => /^(?:apps\/(?!ControllerRevision)|batch\/|ReplicationController$)/.test(kind)
    const key = ({ kind, name, namespace, id }: NaiveNode) => [
      isWorkload(kind) ? 'a' : 'b',
      ...[kind, name, namespace, id],
    ]
    const byRank = (one: (typeof sorted)[number], other: (typeof sorted)[number]) =>
      other.total - one.total || compare(key(one), key(other))
    const { sort } = this.#query
    sorted.sort((one, other) => {
      const [own, others] =
        sort === 'name' ? [one.name || undefined, other.name || undefined] : [one, other].map(createdOf)
      if (sort === undefined || own === others) return byRank(one, other)
      if (own === undefined || others === undefined) return own === undefined ? 1 : -1
      return (sort === 'name' ? own < others : own > others) ? -1 : 1
    })
    const counts: Record<string, number> = {}
    for (const node of children) {
      const word = this.#words[this.#own(node)] as string
      counts[word] = (counts[word] ?? 0) + 1
    }
    const order = sorted.slice(0, limit).map((node) => node.id)
    return { order, counts, more: sorted.length - order.length }
  }

  /** Returns `p`, `c` and `w` of its row. */
  around(id: string): { p?: string; c?: number; w?: ArgoWord } {
    const bundle = /^b:(.*):([^:]*)$/.exec(id)
    const node = this.nodes.get(id)
    const children = bundle
      ? this.#children(bundle[1] as string).filter(({ kind }) => kind === bundle[2])
      : this.#children(id)
    const parent = bundle ? (bundle[1] as string) : (node?.parent ?? '')
    const isBundled = !bundle && node !== undefined && this.#isBundled(parent, node.kind)
    const w = worst(children.map((child) => this.#total(child)))
    return {
      ...(isBundled ? { p: `b:${parent}:${node.kind}` } : parent ? { p: parent } : {}),
      ...(children.length > 0 ? { c: children.length } : {}),
      ...(w > 0 ? { w: this.#words[w] as ArgoWord } : {}),
    }
  }

  #wordOf(record: ObjectRecord): ArgoWord {
    if (this.#judging.verdict !== 'kas') return record.health?.argo ?? ''
    const word = this.kasWord(record, [])
    return word === 'Healthy' && !record.health ? '' : word
  }

  /** @param above - objects above it whose words are being computed */
  kasWord(record: ObjectRecord, above: readonly ObjectRecord[]): ArgoStatus {
    const { judged, holds } = this.#judging
    const choice = judged.get(record.uid)?.find(({ needs }) => needs.every(holds))
    const opinion: Opinion = choice ?? { word: 'Healthy', finding: undefined, by: 'nobody' }
    if (opinion.by === 'users') return opinion.word
    const met = [...above, record]
    const children = [...this.#seen.values()].filter((one) => this.#believed(one) === record && !met.includes(one))
    const words = new Map(children.map((child) => [child.uid, this.kasWord(child, met)]))
    const counted = countedOf(traitObject(record), children.map(traitObject), Number.POSITIVE_INFINITY)
    let worst: ArgoStatus = 'Healthy'
    for (const { child } of counted) {
      const word = words.get(uidOf(child)) ?? 'Healthy'
      if (severityOf(word) > severityOf(worst)) worst = word
    }
    return wordAbove(traitObject(record), opinion, worst)
  }

  #children(id: string): NaiveNode[] {
    return [...this.nodes.values()].filter((node) => node.parent === id)
  }

  #isBundled(parent: string, kind: string): boolean {
    if (this.#query.view === 'list' || kind === 'Application' || kind === 'Environment') return false
    return this.#children(parent).filter((node) => node.kind === kind).length > 50
  }

  #own(node: NaiveNode): number {
    if (!node.record) return worst(this.#children(node.id).map((child) => this.#own(child)))
    return this.#words.indexOf(this.#wordOf(node.record))
  }

  #total(node: NaiveNode): number {
    return Math.max(this.#own(node), worst(this.#children(node.id).map((child) => this.#total(child))))
  }

  #believed(record: ObjectRecord): ObjectRecord | undefined {
    const { owner, customParent, namespace } = record
    if (!owner) {
      const all = [...this.#seen.values()].sort((one, other) => compare([one.uid], [other.uid]))
      const near = all.filter((one) => one.namespace === namespace)
      if (customParent)
        return near.find(({ kind, name }) => kind.key === customParent.kind && name === customParent.name)
      if (record.kind.key !== 'PersistentVolumeClaim') return undefined
      const sets = near.filter(
        ({ kind, name }) => kind.key === 'apps/StatefulSet' && record.name.endsWith(`-${name}-0`),
      )
      return sets.sort((one, other) => other.name.length - one.name.length)[0]
    }
    const found = this.#seen.get(owner.uid)
    const agrees = found?.kind.key === owner.kind && found?.name === owner.name
    return agrees && (found.namespace === '' || found.namespace === namespace) ? found : undefined
  }

  /** Returns the visible parent; cycles are cut. */
  #above(record: ObjectRecord): ObjectRecord | undefined {
    const chain = [record]
    for (let at = this.#believed(record); at; at = this.#believed(at)) {
      if (at.uid === record.uid) {
        const least = chain.map(({ uid }) => uid).sort()[0]
        return least === record.uid ? undefined : this.#believed(record)
      }
      if (chain.includes(at)) break
      chain.push(at)
    }
    return this.#believed(record)
  }

  #inherited(record: ObjectRecord, mark: 'environment' | 'application'): string {
    for (let at: ObjectRecord | undefined = record; at; at = this.#above(at)) {
      const own = mark === 'application' ? this.#application(at) : at.environment
      if (own) return own
    }
    return ''
  }

  #application({ application, claim, kind, namespace, name }: ObjectRecord): string {
    if (!claim) return application
    const isNamed = this.#query.scope?.namespaces?.includes(namespace)
    const isListed = [...this.#seen.values()].some(
      (one) =>
        one.kind.key === claim.kind &&
        one.namespace === claim.namespace &&
        one.name === claim.name &&
        one.references.some(
          (each) =>
            (each.relation === 'deploys' &&
              each.kind === kind.key &&
              each.namespace === namespace &&
              each.name === name) ||
            (each.relation === 'deploys into' && each.name === namespace),
        ),
    )
    return isNamed || isListed ? claim.application : application
  }

  #isInScope(record: ObjectRecord): boolean {
    const { scope = {}, view } = this.#query
    if (scope.namespaces?.length && !scope.namespaces.includes(record.namespace)) return false
    const environment = this.#inherited(record, 'environment')
    if (view === 'environments' && !environment) return false
    if (scope.environment && environment !== scope.environment) return false
    return !scope.application || this.#inherited(record, 'application') === scope.application
  }

  #isAskedFor(record: ObjectRecord): boolean {
    const { name, kind } = record
    const { objects, view, labels } = this.#query
    if (labels && !labelled[labels]?.(record.labels.get('app'))) return false
    const chain = [record]
    for (let at = view === 'object' ? this.#above(record) : undefined; at; at = this.#above(at)) chain.push(at)
    if (objects && !chain.some((one) => objects.some((object) => isNamed(one, object)))) return false
    const { text = '', kinds = [], verdicts = [] } = this.#query.filter ?? {}
    if (!name.toLowerCase().includes(text.toLowerCase())) return false
    if (kinds.length > 0 && !kinds.includes(kind.key)) return false
    return verdicts.length === 0 || verdicts.includes(this.#wordOf(record))
  }

  #add(record: ObjectRecord): void {
    if (this.nodes.has(record.uid)) return
    const { uid, name, namespace, kind } = record
    const node: NaiveNode = { id: uid, record, kind: kind.key, name, namespace, parent: '' }
    this.nodes.set(uid, node)
    const { view } = this.#query
    if (view === 'list') return
    const mark = view === 'environments' ? 'environment' : 'application'
    const group = view === 'environments' ? this.#inherited(record, mark) : this.#application(record)
    const above = this.#above(record)
    const isElsewhere = view === 'environments' && above && this.#inherited(above, mark) !== group
    if (above && this.#isInScope(above) && !isElsewhere) {
      node.parent = above.uid
      this.#add(above)
    } else if (group) {
      node.parent = `g:${mark}/${group}`
      const groupKind = view === 'environments' ? 'Environment' : 'Application'
      this.#given({ id: node.parent, record: undefined, kind: groupKind, name: group, namespace: '', parent: '' })
    } else if (record.owner && !this.#believed(record)) {
      node.parent = `o:${namespace}:${record.owner.uid}`
      this.#given({ id: node.parent, record: undefined, kind: '', name: '', namespace, parent: '' })
    }
  }

  #given(node: NaiveNode): void {
    if (!this.nodes.has(node.id)) this.nodes.set(node.id, node)
  }

  #name(placeholder: NaiveNode): void {
    const [least] = this.#children(placeholder.id).sort((one, other) => compare([one.id], [other.id]))
    placeholder.kind = least?.record?.owner?.kind ?? ''
    placeholder.name = least?.record?.owner?.name ?? ''
  }
}

function compare(one: readonly string[], other: readonly string[]): number {
  for (const [i, text] of one.entries()) if (text !== other[i]) return text < (other[i] as string) ? -1 : 1
  return 0
}
