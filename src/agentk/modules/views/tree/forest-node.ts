import { argoWords } from '../../../../proto/views-json.ts'
import type { Owner } from '../projection/projector.ts'
import type { ObjectRecord } from '../store/record.ts'

/** More visible children of a kind than this are one row. */
export const maxUnbundled = 50

/** Node, or nodes of one kind, to be put in order. */
export interface Ranked {
  readonly id: string
  /** severity of the worst of its own verdict and of those below */
  readonly total: number
  readonly kind: string
  readonly name: string
  readonly namespace: string
  /** undefined: it is no object */
  readonly record: ObjectRecord | undefined
}

/** Subject of a row. */
export type Entry = Node | Family

/** Content of a node that is no object. */
export interface SyntheticNode {
  readonly what: 'group' | 'placeholder' | 'root'
  readonly id: string
  readonly kind: string
  readonly name: string
  readonly namespace: string
}

/**
 * An object as one caller sees it, a group, an owner that is not shown, or the root of all. There is one for each
 * object in each view: so a node does not repeat what is in its record.
 */
export class Node implements Ranked {
  content: ObjectRecord | SyntheticNode
  /** undefined: it is the root, or has no place yet */
  family: Family | undefined
  /** index in `family.members` */
  slot = 0
  #families: readonly Family[] = noFamilies
  /**
   * severities: `own`: of its own verdict, or of the worst child if it is no object; `total`: of the worst of it and
   * below
   */
  own = 0
  total = 0

  constructor(content: Node['content']) {
    this.content = content
  }

  get id(): string {
    return 'uid' in this.content ? this.content.uid : this.content.id
  }

  get what(): 'object' | SyntheticNode['what'] {
    return 'uid' in this.content ? 'object' : this.content.what
  }

  get record(): ObjectRecord | undefined {
    return 'uid' in this.content ? this.content : undefined
  }

  get parent(): Node | undefined {
    return this.family?.parent
  }

  get kind(): string {
    const { kind } = this.content
    return typeof kind === 'string' ? kind : kind.key
  }

  get name(): string {
    return this.content.name
  }

  get namespace(): string {
    return this.content.namespace
  }

  /** children by kind; most nodes have none, and share one empty list */
  get families(): readonly Family[] {
    return this.#families
  }

  familyOf(kind: string): Family | undefined {
    const byKind = familiesByKind.get(this)
    return byKind ? byKind.get(kind) : this.#families.find((family) => family.kind === kind)
  }

  /** Adds a family of a kind that the node does not have yet. */
  addFamily(family: Family): void {
    if (this.#families === noFamilies) this.#families = []
    const families = this.#families as Family[]
    family.slot = families.push(family) - 1
    const byKind = familiesByKind.get(this)
    if (byKind) byKind.set(family.kind, family)
    else if (families.length > fewFamilies) familiesByKind.set(this, new Map(families.map((one) => [one.kind, one])))
  }

  deleteFamily(family: Family): void {
    const families = this.#families as Family[]
    const last = families.pop() as Family
    if (last !== family) {
      families[family.slot] = last
      last.slot = family.slot
    }
    familiesByKind.get(this)?.delete(family.kind)
    if (families.length > 0) return
    this.#families = noFamilies
    familiesByKind.delete(this)
  }

  get childCount(): number {
    return this.families.reduce((sum, { members }) => sum + members.length, 0)
  }

  *children(): Iterable<Node> {
    for (const { members } of this.families) yield* members
  }

  /** Worst severity below the node. */
  worstBelow(): number {
    return this.families.reduce((worst, family) => Math.max(worst, family.total), 0)
  }

  /** Worst own severity of its children. */
  worstChild(): number {
    return this.families.reduce((worst, family) => Math.max(worst, family.own), 0)
  }

  /** Numbers of children, of one kind or of all, by the severity of their own verdict. */
  counts(kind?: string): number[] {
    const counts = noCounts()
    for (const family of this.families) if (kind === undefined || family.kind === kind) family.addCounts(counts)
    return counts
  }
}

const noFamilies: readonly Family[] = []
/** A node with more families has an index of them. */
const fewFamilies = 16
/**
 * Indexes of nodes with many families: an object may name an owner of any kind, and each kind is a family of the root.
 */
const familiesByKind = new WeakMap<Node, Map<string, Family>>()
const noCounts = () => argoWords.map(() => 0)

/** Children of one kind. Many are counted as they come and go, few when the numbers are needed. */
export class Family implements Ranked {
  readonly parent: Node
  readonly kind: string
  readonly name = ''
  readonly namespace = ''
  readonly members: Node[] = []
  /** many of them are one row */
  readonly canBundle: boolean
  /** index in `parent.families` */
  slot = 0
  #tally: { readonly own: number[]; readonly total: number[] } | undefined

  constructor(parent: Node, kind: string, canBundle: boolean) {
    this.parent = parent
    this.kind = kind
    this.canBundle = canBundle
  }

  get record(): undefined {
    return undefined
  }

  /** Id of the row, if they are one. */
  get id(): string {
    return bundleId(this.parent.id, this.kind)
  }

  get isBundle(): boolean {
    return this.canBundle && this.members.length > maxUnbundled
  }

  get own(): number {
    return this.#tally ? worstOf(this.#tally.own) : this.members.reduce((worst, { own }) => Math.max(worst, own), 0)
  }

  get total(): number {
    return this.#tally
      ? worstOf(this.#tally.total)
      : this.members.reduce((worst, { total }) => Math.max(worst, total), 0)
  }

  addCounts(counts: number[]): void {
    const add = (severity: number, count: number) => {
      counts[severity] = (counts[severity] as number) + count
    }
    if (this.#tally) for (const [severity, count] of this.#tally.own.entries()) add(severity, count)
    else for (const { own } of this.members) add(own, 1)
  }

  add(node: Node): void {
    node.family = this
    node.slot = this.members.push(node) - 1
    if (this.#tally) this.#count(node, 1)
    else if (this.members.length > maxUnbundled) {
      this.#tally = { own: noCounts(), total: noCounts() }
      for (const member of this.members) this.#count(member, 1)
    }
  }

  delete(node: Node): void {
    this.#count(node, -1)
    const last = this.members.pop() as Node
    if (last !== node) {
      this.members[node.slot] = last
      last.slot = node.slot
    }
    node.family = undefined
    if (this.members.length <= maxUnbundled) this.#tally = undefined
  }

  setSeverities(node: Node, own: number, total: number): void {
    this.#count(node, -1)
    node.own = own
    node.total = total
    this.#count(node, 1)
  }

  #count({ own, total }: Node, by: 1 | -1): void {
    if (!this.#tally) return
    this.#tally.own[own] = (this.#tally.own[own] as number) + by
    this.#tally.total[total] = (this.#tally.total[total] as number) + by
  }
}

function worstOf(counts: readonly number[]): number {
  return counts.findLastIndex((count) => count > 0)
}

export function bundleId(parent: string, kind: string): string {
  return `b:${parent}:${kind}`
}

/** @returns the parent's id and the kind; undefined: the id is no bundle's */
export function readBundleId(id: string): { readonly parent: string; readonly kind: string } | undefined {
  const colon = id.lastIndexOf(':')
  return id.startsWith('b:') && colon > 1 ? { parent: id.slice(2, colon), kind: id.slice(colon + 1) } : undefined
}

/** Names of placeholders. Children may differ about an owner that is not shown: the child of the least uid decides. */
export class PlaceholderNames {
  /** child of the least uid, by placeholder */
  readonly #least = new Map<Node, Node>()

  /**
   * Notes that a child has come, has changed, or has gone.
   *
   * @returns true if the placeholder's name may differ now
   */
  touch(child: Node, placeholder: Node): boolean {
    const least = this.#least.get(placeholder)
    if (child !== least && lesser(least, child) === least) return false
    if (child.parent === placeholder) this.#least.set(placeholder, child)
    return true
  }

  /** Owner that the placeholder replaces; undefined: it has no children. */
  ownerOf(placeholder: Node): Owner | undefined {
    let least = this.#least.get(placeholder)
    if (least?.parent !== placeholder) {
      least = undefined
      for (const child of placeholder.children()) least = lesser(least, child)
      if (least) this.#least.set(placeholder, least)
    }
    return least?.record?.owner
  }

  delete(placeholder: Node): void {
    this.#least.delete(placeholder)
  }
}

function lesser(one: Node | undefined, other: Node): Node {
  return one && one.id < other.id ? one : other
}
