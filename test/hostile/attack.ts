import type { Stage } from './stage.ts'

/** What is still there of an attack, until it ends. */
export interface Round {
  /** what the evil tenant was told, as text; empty: nothing */
  readonly refusal: string
  /** Lets go of what was held open; that may be the worst of it. */
  end(): Promise<void>
}

/** What was made before an attack, and goes after it. */
export interface Prepared<Made> {
  readonly made: Made
  clean(): Promise<void>
}

/** What good tenants may notice of an attack at full size. */
export interface Bounds {
  /** how many times as long what they do may take */
  readonly slowdown: number
  /** of each program, more than before. MiB */
  readonly moreMib: number
}

export const commonBounds: Bounds = { slowdown: 2, moreMib: 64 }

/** One way to do harm, in two sizes. */
export interface Attack<Size, Made = void> {
  /** as its file */
  readonly name: string
  /** for the screen, in a few words */
  readonly what: string
  /** in what the evil tenant is told; absent: nothing is refused, but he gets no more than his share */
  readonly refusal?: RegExp
  /** of the metrics of the replica that holds the good agent: what counts him. `name{label="value"}` */
  readonly counter?: string
  /** for `npm test`: enough to be seen */
  readonly cheap: Size
  /** one round of `npm run soak -- hostile` */
  readonly full: Size
  /** needs a GitLab in place of the directory file */
  readonly gitlab?: true
  /** on the real API server of KUBEBUILDER_ASSETS, by who shares the good tenants' cluster and agentk. Default: on the double */
  readonly cluster?: true
  /** Takes too long for `npm test`, in its small size too: the soak alone plays it. */
  readonly isLong?: true
  /** agentk may take more meanwhile, within its pod: judged by that it lives */
  readonly agentkMemory?: 'bounded'
  /** at full size, where it may cost good tenants more than others may: doc/soak.md says why. Default: `commonBounds` */
  readonly bounds?: Partial<Bounds>
  /** What has to be there once, before all rounds: that is not judged by time. @throws the signal's reason */
  prepare?(stage: Stage, size: Size, signal: AbortSignal): Promise<Prepared<Made>>
  /**
   * @param made - what `prepare` has made
   * @throws the signal's reason, or when it was cut short before it was told anything
   */
  play(stage: Stage, size: Size, signal: AbortSignal, made: Made): Promise<Round>
}

export const over = (refusal: string): Round => ({ refusal, end: async () => undefined })
