import type { BuiltInKind } from '../../../../kubernetes/kind-words.ts'
import type { Clock } from '../../../../lib/clock.ts'
import type { ViewState } from '../../../../proto/views-json.ts'
import type { ReadonlyRecords, Visibility } from '../store/record.ts'
import type { Forests } from '../tree/forests.ts'

/** One subscription: to a forest, to a graph of it, or to events. */
export interface View {
  /** Rows that its viewer has. */
  readonly rows: number
  /** Links of them. */
  readonly links: number
  /** Nodes whose events are asked for. */
  readonly asked: number
  /** Kubernetes' own kinds that it asks for, where it does so by itself. */
  readonly kinds?: readonly BuiltInKind[]
  /**
   * What the caller may list has changed, or is known for the first time.
   *
   * @throws KasError TOO_MANY_STREAMS: too much is seen already
   */
  show(visibility: Visibility): void
  /** How far what it shows is followed. */
  setState(state: ViewState): void
  /**
   * @param limit - 0: closed
   * @param offset - rows before the first; default: none
   */
  page(node: string, limit: number, offset?: number): void
  taken(seq: number): void
  close(): void
}

/** What each view is made with. */
export interface Viewing {
  readonly clock: Clock
  /** An update is being written. */
  readonly onDue: () => void
  readonly send: (seq: number, json: Uint8Array) => void
}

/** What each view of a forest is made with. */
export interface ForestViewing extends Viewing {
  readonly records: ReadonlyRecords
  readonly forests: Pick<Forests, 'take' | 'release'>
  /** whose view it is */
  readonly user: string
}
