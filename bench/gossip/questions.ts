/** Messages between the bench and the members over IPC. */

export interface MemberSettings {
  readonly name: string
  readonly port: number
  /** addresses of all members, `host:port` */
  readonly members: readonly string[]
}

export type Question =
  /** measures the CPU time of the next `ms` */
  | { readonly kind: 'rest'; readonly ms: number }
  /** makes its own changes, and records when it learns of each of the others' */
  | { readonly kind: 'changes'; readonly own: readonly Change[]; readonly others: readonly string[] }

/** An agent connects. */
export interface Change {
  readonly agentId: string
  /** delay after the question */
  readonly afterMs: number
}

export interface RestAnswer {
  readonly cpuMs: number
  readonly tookMs: number
}

/** The answer once all changes have been made and received. */
export interface ChangesAnswer extends RestAnswer {
  /** times by agent id, by the clock that all processes of a machine share. ms */
  readonly madeAt: Readonly<Record<string, number>>
  readonly heardAt: Readonly<Record<string, number>>
}
