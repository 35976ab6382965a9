import type { BuiltInKind } from '../../../../kubernetes/kind-words.ts'
import type { Clock } from '../../../../lib/clock.ts'
import type { ViewState } from '../../../../proto/views-json.ts'
import type { ReadonlyRecords, Visibility } from '../store/record.ts'
import type { Forests } from '../tree/forests.ts'

/** One subscription: to a forest, to a graph of it, or to events. */
export interface View {
  /** Number of rows that the viewer has. */
  readonly rows: number
  /** Number of links of these rows. */
  readonly links: number
  /** Number of nodes whose events are read. */
  readonly asked: number
  /** Kubernetes' own kinds that the view asks for by itself. */
  readonly kinds?: readonly BuiltInKind[]
  /**
   * The caller's rights have changed, or are known for the first time.
   *
   * @throws KasError TOO_MANY_STREAMS: too much is seen already
   */
  show(visibility: Visibility): void
  /** Takes the state of the kinds that the view shows. */
  setState(state: ViewState): void
  /**
   * @param limit - 0: the page is closed
   * @param offset - rows before the first; default: none
   */
  page(node: string, limit: number, offset?: number): void
  taken(seq: number): void
  close(): void
}

/** Parts with which each view is made. */
export interface Viewing {
  readonly clock: Clock
  /** called before an update is written */
  readonly onDue: () => void
  readonly send: (seq: number, json: Uint8Array) => void
}

/** Parts with which each view of a forest is made. */
export interface ForestViewing extends Viewing {
  readonly records: ReadonlyRecords
  readonly forests: Pick<Forests, 'take' | 'release'>
  /** key of the view's user */
  readonly user: string
}
