import type { Clock } from '../../../../lib/clock.ts'
import type { ObjectRecord, ReadonlyRecords } from '../store/record.ts'
import { sliceMs, updatePauseMs } from '../store/time-slices.ts'
import { BelowWalk } from './below-walk.ts'
import { maxAbove } from './owners.ts'
import type { Moved, VisibleRecords } from './visible-records.ts'

/** Pause after work that took longer than one slice: views can send their state meanwhile. ms */
const restMs = updatePauseMs + sliceMs

export interface BatchesComponents {
  readonly records: ReadonlyRecords
  readonly visible: VisibleRecords
  readonly clock: Clock
}

export interface Placing {
  place(id: string): void
  /** called when a batch has ended, unless it ended at once */
  settled(): void
}

/**
 * Places changed objects in a forest, batch by batch, in turns. A batch has all that has changed before its work
 * begins, with all that follows from it. Later changes are the next batch: so each batch ends, however often objects
 * change.
 */
export class Batches {
  readonly #components: BatchesComponents
  readonly #placing: Placing
  /** records of the first batch, and how many of them are not placed yet */
  #first: Iterator<ObjectRecord> | undefined
  #firstLeft = 0
  /** ids to place in this batch, in order */
  #unplaced = new Set<string>()
  /** one walk through them: a new one would pass all deleted ids again */
  #ids: Iterator<string> | undefined
  #below: BelowWalk
  /** the same for the next batch */
  #unplacedNext = new Set<string>()
  #belowNext: BelowWalk
  #isSettled = false
  /** begin of the batch. ms */
  #since = 0
  #restsUntil = Number.NEGATIVE_INFINITY
  /** ends the batch that waits or runs; undefined: none does */
  #cancel: (() => void) | undefined

  constructor(components: BatchesComponents, placing: Placing) {
    this.#components = components
    this.#placing = placing
    this.#below = this.#walk()
    this.#belowNext = this.#walk()
  }

  /** True if each batch that has begun has ended. */
  get isSettled(): boolean {
    return this.#isSettled
  }

  /** Number of objects that wait for their place. */
  get size(): number {
    return this.#firstLeft + this.#unplaced.size + this.#unplacedNext.size
  }

  /** Begins the first batch: all records that are seen. */
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

  /** Adds a change to the next batch. */
  change({ uids, below }: Moved): void {
    for (const uid of uids) this.#unplacedNext.add(uid)
    for (const each of below) this.#belowNext.add(each)
    this.#work()
  }

  /** Adds an id to this batch. */
  add(id: string): void {
    this.#unplaced.add(id)
  }

  /** Adds what is below an object to this batch. */
  addBelow(record: ObjectRecord): void {
    this.#below.add({ record, claims: true, first: 1, last: 0 })
  }

  #walk(): BelowWalk {
    return new BelowWalk(this.#components.records, maxAbove + 1)
  }

  /** Begins to work in its turn, and not before the pause after long work. */
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
