import type { FollowedHealth } from '../health/follow-health.ts'
import type { AfterRound, Step } from '../round.ts'
import type { SourceOptions } from '../source-options.ts'
import type { StatusSink } from '../state/status-sink.ts'

export interface HealthReportsComponents {
  readonly status: Pick<StatusSink, 'report'>
  /** Follows the health of the source's objects. @param onHealth - called when it may differ */
  readonly follow: (onHealth: () => void) => FollowedHealth
}

/** Health of one source's objects in the source's state, through its rounds. */
export class HealthReports {
  readonly followed: FollowedHealth
  readonly #components: HealthReportsComponents
  readonly #options: SourceOptions

  constructor(components: HealthReportsComponents, options: SourceOptions) {
    this.#components = components
    this.#options = options
    this.followed = components.follow(() => this.#report())
  }

  /** A round for a new commit begins: the health of objects is known of the commit before alone. */
  roundBegins(): void {
    this.followed.roundBegins()
    this.#report()
  }

  stepEnded({ key, end }: Extract<Step, { kind: 'ended' }>): void {
    if (end.kind === 'applied') this.followed.stepEnded(key, true)
    else if (end.kind === 'unchanged' || end.kind === 'drifted') this.followed.stepEnded(key, false)
  }

  /** Reads the objects that the round has written, and reports that their health is not known until then. */
  roundEnded(after: AfterRound): void {
    this.followed.roundEnds(after)
    this.#report()
  }

  roundFailed(): void {
    this.followed.roundEnds(undefined)
  }

  #report(): void {
    this.#components.status.report(this.#options, { kind: 'health', summary: this.followed.summary })
  }
}
