import { createHash } from 'node:crypto'
import { keyText, type ObjectKey } from '../../../../kubernetes/key.ts'

/** The plan that somebody has approved of a source, as its round found it: good once. */
export class ApprovedPlan {
  /** of a plan; empty: nothing is approved */
  readonly digest: string
  readonly #use: (signal: AbortSignal) => Promise<void>
  #used: Promise<void> | undefined

  /** @param use - takes it back. @throws: it still is approved, or something else is by now */
  constructor(digest: string, use: (signal: AbortSignal) => Promise<void>) {
    this.digest = digest
    this.#use = use
  }

  /** Before anything goes by it, and where no plan can be meant. @throws: nothing may go */
  use(signal: AbortSignal): Promise<void> {
    this.#used ??= this.#use(signal)
    return this.#used
  }
}

/** Of what a source deletes for a commit, once somebody approves that and nothing else. Nothing: empty. */
export function planDigest(
  { id, commit }: { readonly id: string; readonly commit: string },
  deletes: readonly { readonly key: ObjectKey; readonly uid: string; readonly dependents?: string }[],
): string {
  if (deletes.length === 0) return ''
  const lines = deletes
    .map(({ key, uid, dependents }) => `${keyText(key)} ${uid}${dependents ? ` ${dependents}` : ''}`)
    .sort()
  return createHash('sha256')
    .update(JSON.stringify([id, commit, lines]))
    .digest('hex')
}
