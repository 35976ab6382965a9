import type { Clock } from '../../../../lib/clock.ts'
import type { ObjectRecord, ReadonlyRecords } from '../store/record.ts'
import { Batches } from './batches.ts'
import { Family, Node, PlaceholderNames, type SyntheticNode } from './forest-node.ts'
import { Applications } from './memberships.ts'
import type { Above } from './owners.ts'
import type { ReadQuery } from './query.ts'
import { QueryScope } from './query-scope.ts'
import type { VerdictSide } from './severity.ts'
import type { Moved, VisibleRecords } from './visible-records.ts'

/**
 * Bound of applications or environments in a view: anyone may name one. Objects of further ones are placed as if in
 * none.
 */
export const maxGroups = 2000

/** Notified of what is seen, and of nothing else. */
export interface ForestListener {
  /** A child has come, has changed, or has gone: its row, or the page of `parent`, may differ. */
  touched(child: Node, parent: Node): void
  /** The members are one row now, or are one no longer. */
  rebundled(family: Family): void
  /** The forest is whole again, after a while in which it was not. */
  settled(): void
  /** Objects that are seen, in the forest or not, have changed, or opinions on them, or their links. */
  moved(moved: Moved): void
}

export interface ForestComponents {
  readonly records: ReadonlyRecords
  readonly visible: VisibleRecords
  readonly clock: Clock
  readonly side: VerdictSide
}

/**
 * Tree of what is seen: objects that the caller may list, in scope and let through by the filter, with what is above
 * them. It depends on these objects alone: it shows neither changes nor the number of others.
 *
 * An object is placed again when it changes, or something that decides its place. Each placing reads the records as
 * they are now. Between two batches of placings the forest is settled.
 */
export class Forest {
  readonly root = new Node({ what: 'root', id: '', kind: '', name: '', namespace: '' })
  readonly listeners = new Set<ForestListener>()
  readonly #components: ForestComponents
  readonly #query: ReadQuery
  readonly #scope: QueryScope
  readonly #nodes = new Map<string, Node>([['', this.root]])
  /** groups among them */
  #groups = 0
  readonly #placeholders = new PlaceholderNames()
  readonly #batches: Batches
  #placesVersion = 0

  constructor(components: ForestComponents, query: ReadQuery) {
    this.#components = components
    this.#query = query
    const { records, visible, side } = components
    const severityOf = (record: ObjectRecord) => visible.severityOf(record, side)
    const verdicts = { severityOf, side }
    this.#scope = new QueryScope(query, verdicts, new Applications(records, visible.sees, query.namespaces))
    this.#batches = new Batches(components, {
      place: (id) => this.#place(id),
      settled: () => {
        for (const listener of this.listeners) listener.settled()
      },
    })
  }

  /** True if no change waits for its place. */
  get isSettled(): boolean {
    return this.#batches.isSettled
  }

  get visible(): VisibleRecords {
    return this.#components.visible
  }

  /** System whose verdict orders and counts. */
  get side(): VerdictSide {
    return this.#components.side
  }

  /** Number that differs once a node has come, has moved or has gone. */
  get placesVersion(): number {
    return this.#placesVersion
  }

  /**
   * Number of entries that take memory: objects, groups and placeholders, objects that wait, and those that inherit a
   * group.
   */
  get size(): number {
    return this.#nodes.size - 1 + this.#batches.size + this.#scope.size
  }

  node(id: string): Node | undefined {
    const node = this.#nodes.get(id)
    return node?.family || node?.what === 'root' ? node : undefined
  }

  start(): void {
    this.#batches.start()
  }

  stop(): void {
    this.#batches.stop()
    this.listeners.clear()
  }

  change(moved: Moved): void {
    this.#batches.change(moved)
    for (const listener of this.listeners) listener.moved(moved)
  }

  #place(id: string): void {
    const node = this.#nodes.get(id)
    if (node && node.what !== 'object') this.#placeSynthetic(node)
    else this.#placeUid(id, node)
  }

  #placeUid(uid: string, node: Node | undefined): void {
    const known = this.#components.records.get(uid)
    const record = known && this.visible.sees(known) ? known : undefined
    const above = record && this.visible.owners.above(record)
    if (this.#scope.place(uid, record, above) && known) this.#batches.addBelow(known)
    const isWanted = record && this.#scope.holds(record) && (this.#scope.isAskedFor(record) || node?.families.length)
    if (isWanted) this.#placeObject(node ?? this.#add(new Node(record)), record, above)
    else if (node) this.#remove(node)
  }

  #placeObject(node: Node, record: ObjectRecord, above: Above): void {
    const parent = this.#parentOf(record, above)
    const isMoved = node.parent !== parent || node.family?.kind !== record.kind.key
    if (isMoved) this.#detach(node)
    node.content = record
    const own = this.visible.severityOf(record, this.side)
    const isWorseOrBetter = this.#setSeverities(node, own, Math.max(own, node.worstBelow()))
    if (isMoved) this.#attach(node, parent)
    else {
      this.#notify(node)
      this.#mayRename(parent, node)
      if (isWorseOrBetter || parent.what === 'group') this.#refresh(parent)
    }
  }

  /** Keeps a group or a placeholder as long as there is something in it. */
  #placeSynthetic(node: Node): void {
    if (node.what !== 'root' && node.families.length === 0) this.#remove(node)
    else if (node.what === 'placeholder') this.#rename(node)
  }

  #parentOf(record: ObjectRecord, above: Above): Node {
    if (this.#query.view === 'list') return this.root
    const group = this.#scope.groupOf(record)
    if (above?.is === 'object' && this.#scope.holds(above.record)) {
      const isElsewhere = group?.kind === 'Environment' && this.#scope.groupOf(above.record)?.name !== group.name
      if (!isElsewhere) return this.#objectNode(above.record)
    }
    if (group && (this.#nodes.has(group.id) || this.#groups < maxGroups)) return this.#syntheticNode(group)
    if (above?.is !== 'placeholder') return this.root
    const { id, owner } = above
    return this.#syntheticNode({
      what: 'placeholder',
      id,
      kind: owner.kind,
      name: owner.name,
      namespace: record.namespace,
    })
  }

  #add(node: Node): Node {
    this.#nodes.set(node.id, node)
    return node
  }

  /** Returns the node of an object that is seen: a node without a place gets one soon. */
  #objectNode(record: ObjectRecord): Node {
    const known = this.#nodes.get(record.uid)
    if (known) return known
    this.#batches.add(record.uid)
    const node = this.#add(new Node(record))
    node.own = this.visible.severityOf(record, this.side)
    node.total = node.own
    return node
  }

  #syntheticNode(synthetic: SyntheticNode): Node {
    const known = this.#nodes.get(synthetic.id)
    if (known) return known
    const node = this.#add(new Node(synthetic))
    if (synthetic.what === 'group') this.#groups++
    this.#attach(node, this.root)
    return node
  }

  #mayRename(parent: Node, child: Node): void {
    if (parent.what === 'placeholder' && this.#placeholders.touch(child, parent)) this.#batches.add(parent.id)
  }

  #rename(placeholder: Node): void {
    const owner = this.#placeholders.ownerOf(placeholder)
    if (!owner || (owner.kind === placeholder.kind && owner.name === placeholder.name)) return
    this.#detach(placeholder)
    const { id, namespace } = placeholder
    placeholder.content = { what: 'placeholder', id, kind: owner.kind, name: owner.name, namespace }
    this.#attach(placeholder, this.root)
  }

  /** Removes a node, once all that is below it has another place. */
  #remove(node: Node): void {
    if (node.families.length > 0) {
      for (const { id } of node.children()) this.#batches.add(id)
      this.#batches.add(node.id)
      return
    }
    this.#detach(node)
    this.#nodes.delete(node.id)
    this.#placeholders.delete(node)
    if (node.what === 'group') this.#groups--
  }

  #attach(node: Node, parent: Node): void {
    this.#placesVersion++
    this.#openCycle(node, parent)
    let family = parent.familyOf(node.kind)
    if (!family) {
      const canBundle = node.what !== 'group' && this.#query.view !== 'list'
      family = new Family(parent, node.kind, canBundle)
      parent.addFamily(family)
    }
    const wasBundle = family.isBundle
    family.add(node)
    this.#childrenChanged(node, family, wasBundle)
  }

  #detach(node: Node): void {
    const { family } = node
    if (!family) return
    this.#placesVersion++
    const wasBundle = family.isBundle
    family.delete(node)
    if (family.members.length === 0) family.parent.deleteFamily(family)
    this.#childrenChanged(node, family, wasBundle)
  }

  #childrenChanged(node: Node, family: Family, wasBundle: boolean): void {
    const { parent } = family
    for (const listener of this.listeners) {
      if (family.isBundle !== wasBundle) listener.rebundled(family)
      listener.touched(node, parent)
    }
    this.#mayRename(parent, node)
    // it may have been there for this child alone
    if (parent.families.length === 0) this.#batches.add(parent.id)
    this.#refresh(parent)
  }

  /** Before all is placed, `parent` may still be below `node`: then the node between them is placed again. */
  #openCycle(node: Node, parent: Node): void {
    if (node.families.length === 0) return
    for (let at: Node | undefined = parent; at; at = at.parent) {
      if (at !== node && at.parent !== node) continue
      if (at === node) return
      this.#detach(at)
      this.#batches.add(at.id)
      return
    }
  }

  /** Updates a node whose children have changed, and what is above it. */
  #refresh(node: Node): void {
    for (let at: Node | undefined = node; at && at.what !== 'root'; at = at.parent) {
      const own = at.what === 'object' ? at.own : at.worstChild()
      const isWorseOrBetter = this.#setSeverities(at, own, Math.max(own, at.worstBelow()))
      this.#notify(at)
      if (!isWorseOrBetter) return
    }
  }

  #setSeverities(node: Node, own: number, total: number): boolean {
    if (own === node.own && total === node.total) return false
    if (node.family) node.family.setSeverities(node, own, total)
    else Object.assign(node, { own, total })
    return true
  }

  #notify(node: Node): void {
    const { parent } = node
    if (parent) for (const listener of this.listeners) listener.touched(node, parent)
  }
}
