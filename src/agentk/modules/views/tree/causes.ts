import { type KubernetesObject, uidOf } from '../../../../kubernetes/object.ts'
import { severityOf } from '../../../health/kas/finding.ts'
import { isUndoable, nextOf } from '../../../health/kas/next.ts'
import type { Opinion } from '../../../health/kas/opinion.ts'
import type { Cause } from '../../../health/kas/root-causes/choosing.ts'
import { siblingKinds } from '../../../health/kas/root-causes/counting.ts'
import { Judge, type MayList } from '../../../health/kas/root-causes/judge.ts'
import type { ObjectRecord, Place, ReadonlyRecords } from '../store/record.ts'
import { RecordsWorld } from '../store/records-world.ts'
import type { VisibleRecords } from './visible-records.ts'

/** bound of objects that are not well, from which one cause is chosen */
const maxSick = 256
/** bound of objects that are read for one root; further ones are left out */
const maxReadForRoot = 50_000

/** Reason why an object is not well, as rows show it. Times are ms since 1970. */
export interface ShownCause
  extends Pick<Cause, 'kind' | 'namespace' | 'name' | 'id' | 'reason' | 'text' | 'count' | 'others'> {
  readonly next: string
  readonly since: number | undefined
  /** `since` is the time at which it was seen first: it may be older */
  readonly isAtLeast: boolean
  readonly last: number | undefined
  /** the rollout that it blocks may be undone: Pods of the version before are there */
  readonly isUndoable: boolean
}

/** Chooses causes as one caller sees them, at one moment. */
export class Causes {
  readonly #world: VisibleWorld
  readonly #mayList: MayList
  readonly #namespaces = new Set<string>()

  constructor(records: ReadonlyRecords, visible: VisibleRecords, now: () => number) {
    this.#world = new VisibleWorld(records, visible, now, (namespace) => this.#namespaces.add(namespace))
    this.#mayList = (kind, namespace) => visible.opinions.holds([kind, namespace])
  }

  /** Number of objects that were read. */
  get read(): number {
    return this.#world.read
  }

  /**
   * @param roots - objects that people see as one root; at least one
   * @returns `namespaces`: where objects were read. The choice stays the same as long as no opinion changes there
   */
  of(roots: readonly ObjectRecord[]): {
    readonly cause: ShownCause | undefined
    readonly namespaces: readonly string[]
  } {
    this.#namespaces.clear()
    this.#world.begin()
    const objects = roots.map((root) => this.#world.object(root))
    const { cause, atLeast } = new Judge(this.#world, this.#mayList).judgeAll(objects)
    return { cause: cause && shown(cause, atLeast, objects), namespaces: [...this.#namespaces] }
  }
}

function shown(cause: Cause, atLeast: number | undefined, [root, ...others]: readonly KubernetesObject[]): ShownCause {
  const { kind, namespace, name, id, reason, text, since, last, count } = cause
  const next = nextOf(cause)
  return {
    kind,
    namespace,
    name,
    id,
    reason,
    text,
    next,
    since: since ?? atLeast,
    isAtLeast: since === undefined,
    last,
    count,
    others: cause.others,
    isUndoable: root !== undefined && others.length === 0 && isUndoable(root, cause),
  }
}

/** Records as one caller sees them. */
class VisibleWorld extends RecordsWorld {
  readonly #visible: VisibleRecords
  readonly #onRead: (namespace: string) => void
  #sick = 0
  #began = 0

  constructor(
    records: ReadonlyRecords,
    visible: VisibleRecords,
    now: () => number,
    onRead: (namespace: string) => void,
  ) {
    super({ records, now })
    this.#visible = visible
    this.#onRead = onRead
  }

  begin(): void {
    this.#sick = 0
    this.#began = this.read
  }

  object(record: ObjectRecord): KubernetesObject {
    return this.objectOf(record)
  }

  override find(kind: string, namespace: string, name: string): KubernetesObject | undefined {
    this.#onRead(namespace)
    const record = this.records.named(kind, namespace, name)
    return record && this.#visible.sees(record) ? this.objectOf(record) : undefined
  }

  // the namespace is noted even without Pods: there may be some later
  override podsOf(namespace: string, selector: Parameters<RecordsWorld['podsOf']>[1]): readonly KubernetesObject[] {
    this.#onRead(namespace)
    return super.podsOf(namespace, selector)
  }

  override apiServicesOf(group: string): readonly KubernetesObject[] {
    this.#onRead('')
    return super.apiServicesOf(group)
  }

  override webhooksNamed(name: string): readonly KubernetesObject[] {
    this.#onRead('')
    return super.webhooksNamed(name)
  }

  override unwellNodes(): readonly KubernetesObject[] {
    this.#onRead('')
    return super.unwellNodes()
  }

  override deletedIn(namespace: string): readonly KubernetesObject[] {
    this.#onRead(namespace)
    return super.deletedIn(namespace)
  }

  /** Children that count; where there are too many, the worst come first. */
  override childrenOf(object: KubernetesObject): readonly KubernetesObject[] {
    const parent = this.placeOf(object)
    const worst: ObjectRecord[] = []
    const others: ObjectRecord[] = []
    const siblings: ObjectRecord[] = []
    for (const child of this.#childrenToRead(parent)) {
      if (this.isSpent) break
      if (!this.#visible.sees(child)) continue
      this.count()
      if (this.#visible.owners.believed(child)?.uid !== parent.uid) continue
      const { word, below } = this.#visible.opinions.of(child)
      if (siblingKinds.has(child.kind.key)) siblings.push(child)
      else if (word === 'Degraded' || below === 'Degraded') worst.push(child)
      else if (severityOf(word) > 0 || severityOf(below) > 0) others.push(child)
      if (worst.length === maxSick) break
    }
    const left = Math.max(0, maxSick - this.#sick)
    const sick = [...worst, ...others].slice(0, left)
    this.#sick += sick.length
    return [...siblings.slice(0, maxSick), ...sick].map((child) => this.objectOf(child))
  }

  #childrenToRead(parent: Place): Iterable<ObjectRecord> {
    const record = this.records.get(parent.uid)
    const notable = record && this.#visible.opinions.notableOf(record)
    return notable ? Array.from(notable, (uid) => this.records.get(uid) ?? []).flat() : this.records.claiming(parent)
  }

  /** The caller gets findings by `opinionOf` alone. */
  override findingsOf(): readonly [] {
    return []
  }

  override opinionOf(object: KubernetesObject): Opinion {
    const uid = uidOf(object)
    return this.#visible.opinions.ofOne({ uid, health: this.records.get(uid)?.health })
  }

  protected override objectOf(record: ObjectRecord): KubernetesObject {
    this.#onRead(record.namespace)
    return super.objectOf(record)
  }

  protected override first(records: Iterable<ObjectRecord>, isIt: (record: ObjectRecord) => boolean) {
    return super.first(this.#seen(records), isIt)
  }

  /** Yields the records that are seen: hidden ones do not count as read. */
  *#seen(records: Iterable<ObjectRecord>): Iterable<ObjectRecord> {
    for (const record of records) {
      if (this.isSpent) return
      if (this.#visible.sees(record)) yield record
    }
  }

  protected override get isSpent(): boolean {
    return this.read - this.#began > maxReadForRoot
  }
}
