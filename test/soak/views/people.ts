/** Who looks at views. A job acts as the agent in the cluster, users as themselves. */
export type Viewer = 'job' | User
export const users = ['ada', 'ben', 'cleo'] as const
export type User = (typeof users)[number]

/** Who they are, as the Directory of kas knows them. */
export interface People {
  /** for the text: who knows them */
  readonly name: string
  /** what each shows after `Bearer ` */
  readonly credentials: Readonly<Record<Viewer, string>>
  /** From now on the job has ended, ben has no role and cleo's token is revoked. */
  take(): Promise<void>
  /** All is as it was before `take`. */
  give(): Promise<void>
  stop(): Promise<void>
}

/** By whom each may be let in no more: what `take` takes. */
export const taken: Readonly<Partial<Record<Viewer, string>>> = { job: 'job', ben: 'role', cleo: 'token' }
