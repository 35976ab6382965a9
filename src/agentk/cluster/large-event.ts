import { JsonScanner, type JsonScanPlan } from '../../lib/json-scanner.ts'

/** The fields that are read from an event that is too large to be kept. */
export interface LargeEvent {
  /** `ADDED`, `MODIFIED`, `DELETED` */
  readonly type: string
  readonly namespace: string
  readonly name: string
  readonly uid: string
}

const plan: JsonScanPlan = {
  places: { type: 'type', object: { metadata: { namespace: 'namespace', name: 'name', uid: 'uid' } } },
  maxDepth: 10_000, // bound of encoding/json in Go
  maxTextBytes: 1024, // the fields are shorter
}
const noFields: LargeEvent = { type: '', namespace: '', name: '', uid: '' }

/** Reads the identity of an event's object as its line comes, and keeps nothing else of it. */
export class LargeEventReader {
  readonly #scanner = new JsonScanner(plan)

  add(bytes: Buffer): void {
    this.#scanner.add(bytes)
  }

  /** Returns the fields, once the line has ended. A field that was not found is empty. */
  read(): LargeEvent {
    return { ...noFields, ...this.#scanner.texts }
  }
}
