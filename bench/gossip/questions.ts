/** What the bench and the members say to each other over IPC. */

export interface MemberSettings {
  readonly name: string
  readonly port: number
  /** all of them, `host:port` */
  readonly members: readonly string[]
}

export type Question =
  /** the CPU time of the next `ms` */
  | { readonly kind: 'rest'; readonly ms: number }
  /** makes its own changes, and writes down when it hears of each of the others' */
  | { readonly kind: 'changes'; readonly own: readonly Change[]; readonly others: readonly string[] }

/** An agent connects. */
export interface Change {
  readonly agentId: string
  /** after the question */
  readonly afterMs: number
}

export interface RestAnswer {
  readonly cpuMs: number
  readonly tookMs: number
}

/** Once all has been made and heard. */
export interface ChangesAnswer extends RestAnswer {
  /** by agent id, by the clock that all processes of a machine share. ms */
  readonly madeAt: Readonly<Record<string, number>>
  readonly heardAt: Readonly<Record<string, number>>
}
