import type { Clock } from '../../../../lib/clock.ts'
import type { ObjectRecord, ReadonlyRecords } from '../store/record.ts'
import { sliceMs, updatePauseMs } from '../store/time-slices.ts'
import { BelowWalk } from './below-walk.ts'
import { maxAbove } from './owners.ts'
import type { Moved, VisibleRecords } from './visible-records.ts'

/** After work that took longer than one turn it stands still so long: whoever shows it can send what it is. ms */
const restMs = updatePauseMs + sliceMs

export interface BatchesComponents {
  readonly records: ReadonlyRecords
  readonly visible: VisibleRecords
  readonly clock: Clock
}

export interface Placing {
  place(id: string): void
  /** A batch has ended, not at once. */
  settled(): void
}

/**
 * What is to be placed in a forest, batch by batch, in turns: what has changed by the time that the work begins, with all
 * that follows from it, is one batch; what changes meanwhile is the next. However often something changes, each batch ends.
 */
export class Batches {
  readonly #components: BatchesComponents
  readonly #placing: Placing
  /** of the first batch: all that is seen, and how many of it were not placed yet */
  #first: Iterator<ObjectRecord> | undefined
  #firstLeft = 0
  /** ids of what is to be placed in this batch, the first first */
  #unplaced = new Set<string>()
  /** one walk through it: a new one would pass all that was deleted */
  #ids: Iterator<string> | undefined
  #below: BelowWalk
  /** the same of the next batch */
  #unplacedNext = new Set<string>()
  #belowNext: BelowWalk
  #isSettled = false
  /** when the batch began */
  #since = 0
  #restsUntil = Number.NEGATIVE_INFINITY
  /** undefined: no batch waits or runs. Ends it. */
  #cancel: (() => void) | undefined

  constructor(components: BatchesComponents, placing: Placing) {
    this.#components = components
    this.#placing = placing
    this.#below = this.#walk()
    this.#belowNext = this.#walk()
  }

  /** No batch has begun that has not ended. */
  get isSettled(): boolean {
    return this.#isSettled
  }

  /** Of what waits for its place. */
  get size(): number {
    return this.#firstLeft + this.#unplaced.size + this.#unplacedNext.size
  }

  /** The first batch: all that is seen. */
  start(): void {
    const { records, visible } = this.#components
    const places = [...records.places()].filter((place) => visible.sees(place))
    this.#firstLeft = places.reduce((sum, { size }) => sum + size, 0)
    this.#first = allOf(records, places)
    this.#beginBatch()
    this.#work()
  }

  stop(): void {
    this.#cancel?.()
  }

  /** In the next batch. */
  change({ uids, below }: Moved): void {
    for (const uid of uids) this.#unplacedNext.add(uid)
    for (const each of below) this.#belowNext.add(each)
    this.#work()
  }

  /** In this batch. */
  add(id: string): void {
    this.#unplaced.add(id)
  }

  /** What stands below it, in this batch. */
  addBelow(record: ObjectRecord): void {
    this.#below.add({ record, claims: true, first: 1, last: 0 })
  }

  #walk(): BelowWalk {
    return new BelowWalk(this.#components.records, maxAbove + 1)
  }

  /** In its turn, not before it has stood still for a while after much work. */
  #work(): void {
    if (this.#cancel) return
    const { clock, visible } = this.#components
    const waitMs = this.#restsUntil - clock.now()
    if (waitMs > 0) {
      this.#cancel = clock.after(waitMs, () => {
        this.#cancel = undefined
        this.#work()
      })
      return
    }
    let isAtOnce = true
    let isOver = false
    this.#cancel = () => undefined
    const cancel = visible.run(
      () => this.#step(),
      () => {
        isOver = true
        this.#settled(isAtOnce)
      },
    )
    if (!isOver) this.#cancel = cancel
    isAtOnce = false
  }

  #beginBatch(): void {
    this.#isSettled = false
    this.#since = this.#components.clock.now()
    ;[this.#unplaced, this.#unplacedNext] = [this.#unplacedNext, this.#unplaced]
    ;[this.#below, this.#belowNext] = [this.#belowNext, this.#below]
    this.#ids = undefined
  }

  #step(): boolean {
    if (this.#isSettled) this.#beginBatch()
    if (!this.#below.isEmpty) {
      this.#below.step((record) => {
        if (this.#components.visible.sees(record)) this.#unplaced.add(record.uid)
      })
      return true
    }
    const uid = this.#nextOfFirst()
    if (uid !== undefined) {
      this.#placing.place(uid)
      return true
    }
    this.#ids ??= this.#unplaced.values()
    const { value: id } = this.#ids.next()
    if (id === undefined) return false
    this.#unplaced.delete(id)
    this.#placing.place(id)
    return true
  }

  #nextOfFirst(): string | undefined {
    const { value: record } = this.#first?.next() ?? {}
    if (record) this.#firstLeft = Math.max(0, this.#firstLeft - 1)
    else if (this.#first) {
      this.#first = undefined
      this.#firstLeft = 0
    }
    return record?.uid
  }

  #settled(isAtOnce: boolean): void {
    const now = this.#components.clock.now()
    this.#cancel = undefined
    this.#isSettled = true
    if (now - this.#since > sliceMs) this.#restsUntil = now + restMs
    if (!isAtOnce) this.#placing.settled()
    if (this.#unplacedNext.size > 0 || !this.#belowNext.isEmpty) this.#work()
  }
}

function* allOf(
  records: ReadonlyRecords,
  places: readonly { readonly kind: ObjectRecord['kind']; readonly namespace: string }[],
): Generator<ObjectRecord, undefined> {
  for (const { kind, namespace } of places) yield* records.inNamespace(kind.key, namespace)
}
