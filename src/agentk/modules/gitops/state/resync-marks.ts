import { at, entryAt } from '../../../../kubernetes/object.ts'
import { resyncAnnotation, resyncedAnnotation } from '../../../../proto/gitops/annotations.ts'

/**
 * Last request of each source to compare once more that was done. An annotation keeps it, so that the next leader does
 * a request that came while no pod led.
 */
export class ResyncMarks {
  /** by path of the source's object; as many as there are sources */
  readonly #done = new Map<string, string>()
  /** by path: text of the annotation that this pod has written */
  readonly #written = new Map<string, string>()

  /** Takes an object that was read. @returns the last request that was done; empty: none */
  read(path: string, object: unknown): string {
    const known = this.#done.get(path) ?? doneIn(object)
    this.#done.set(path, known)
    return known
  }

  done(path: string, text: string): void {
    this.#done.set(path, text)
  }

  /** True if the object is to get the annotation. */
  isDue(path: string): boolean {
    return this.#written.get(path) !== this.#done.get(path)
  }

  /** Has `write` write the object with these annotations. */
  async write<T>(path: string, write: (annotations: Readonly<Record<string, string>>) => Promise<T>): Promise<T> {
    const text = this.#done.get(path) ?? ''
    const written = await write({ [resyncedAnnotation]: text })
    this.#written.set(path, text)
    return written
  }

  forget(path: string): void {
    this.#done.delete(path)
    this.#written.delete(path)
  }
}

/** Returns the mark. Without one an earlier version, which wrote none, may have done the present request. */
function doneIn(object: unknown): string {
  const annotations = at(object, 'metadata.annotations') ?? {}
  const name = Object.hasOwn(annotations, resyncedAnnotation) ? resyncedAnnotation : resyncAnnotation
  return entryAt(object, 'metadata.annotations', name)
}
