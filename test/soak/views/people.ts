/** A user of views. A job acts as the agent in the cluster, users as themselves. */
export type Viewer = 'job' | User
export const users = ['ada', 'ben', 'cleo'] as const
export type User = (typeof users)[number]

/** The users, as the Directory of kas knows them. */
export interface People {
  /** name of the directory, for texts */
  readonly name: string
  /** credentials after `Bearer ` */
  readonly credentials: Readonly<Record<Viewer, string>>
  /** From now on the job has ended, ben has no role and cleo's token is revoked. */
  take(): Promise<void>
  /** Restores the state from before `take`. */
  give(): Promise<void>
  stop(): Promise<void>
}

/** The part of each viewer's access that `take` removes. */
export const taken: Readonly<Partial<Record<Viewer, string>>> = { job: 'job', ben: 'role', cleo: 'token' }
