import type { Stage } from './stage.ts'

/** An attack under way, until it ends. */
export interface Round {
  /** refusal that the evil tenant got, as text; empty: none */
  readonly refusal: string
  /** Closes all that the attack keeps open; that may do the most harm. */
  end(): Promise<void>
}

/** State that is made before an attack, and removed after it. */
export interface Prepared<Made> {
  readonly made: Made
  clean(): Promise<void>
}

/** Limits of an attack's effect on good tenants, at full size. */
export interface Bounds {
  /** factor by which good tenants' calls may take longer */
  readonly slowdown: number
  /** memory of each program above that before. MiB */
  readonly moreMib: number
}

export const commonBounds: Bounds = { slowdown: 2, moreMib: 64 }

/** One way to do harm, in two sizes. */
export interface Attack<Size, Made = void> {
  /** name of its file */
  readonly name: string
  /** description for the screen, in a few words */
  readonly what: string
  /**
   * pattern of the refusal that the evil tenant gets; absent: it is refused nothing, but gets no more than its share
   */
  readonly refusal?: RegExp
  /** metric that counts the attack, at the replica that holds the good agent: `name{label="value"}` */
  readonly counter?: string
  /** size for `npm test`, enough to be seen */
  readonly cheap: Size
  /** size of one round of `npm run soak -- hostile` */
  readonly full: Size
  /** needs a GitLab in place of the directory file */
  readonly gitlab?: true
  /**
   * runs on the real API server of KUBEBUILDER_ASSETS, as a user who shares the good tenants' cluster and agentk.
   * Default: on the double
   */
  readonly cluster?: true
  /** takes too long for `npm test`, in its small size too; only the soak plays it */
  readonly isLong?: true
  /** agentk may take more memory meanwhile, within its pod; the test checks only that it lives */
  readonly agentkMemory?: 'bounded'
  /**
   * limits at full size, where it may cost good tenants more than other attacks: doc/internals/soak.md has the reason. Default:
   * `commonBounds`
   */
  readonly bounds?: Partial<Bounds>
  /** Makes the state that all rounds need, once; its duration does not count. @throws the signal's reason */
  prepare?(stage: Stage, size: Size, signal: AbortSignal): Promise<Prepared<Made>>
  /**
   * Plays one round.
   *
   * @param made - result of `prepare`
   * @throws the signal's reason, or Error if the round was cut short before its refusal
   */
  play(stage: Stage, size: Size, signal: AbortSignal, made: Made): Promise<Round>
}

export const over = (refusal: string): Round => ({ refusal, end: async () => undefined })
