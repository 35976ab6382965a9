import { request } from 'node:http'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { etcdSocket } from '../../../dev/control-plane/control-plane-flags.ts'

/** An entry in etcd's JSON: bytes are base64, numbers are text. */
interface Entry {
  readonly key: string
  readonly value: string
  readonly mod_revision: string
}

/** content of a store, by key */
export type Snapshot = ReadonlyMap<string, Entry>

/** bounds of a range of all keys */
const everything = Buffer.from('\0').toString('base64')
/** deletions of one transaction: etcd accepts 128 operations */
const maxDeleted = 100
/**
 * Keys that the API server writes for itself, again and again: its leases, and the revision of its last compaction. It
 * panics at the next one, five minutes later, if that key has gone.
 */
const ownKeys = ['/registry/leases/kube-system/', 'compact_rev_key'] as const

/** The etcd of a control plane. With its earlier content restored, the API server is as if it had got no requests. */
export class Store {
  readonly #socketPath: string

  /** @param folder - of the control plane */
  constructor(folder: string) {
    this.#socketPath = join(folder, etcdSocket)
  }

  async snapshot(): Promise<Snapshot> {
    const { kvs } = (await this.#call('range', { key: everything, range_end: everything })) as { kvs: Entry[] }
    return new Map(kvs.filter(({ key }) => !isOwn(textOf(key))).map((entry) => [entry.key, entry]))
  }

  /**
   * Deletes new keys, and restores the values of changed and deleted keys.
   *
   * @returns the names of these keys: none, if the store is as it was
   */
  async restore(before: Snapshot): Promise<string[]> {
    const now = await this.snapshot()
    const made = [...now.keys()].filter((key) => !before.has(key))
    const changed = [...before.values()].filter(({ key, value }) => now.get(key)?.value !== value)
    for (let i = 0; i < made.length; i += maxDeleted) {
      const success = made.slice(i, i + maxDeleted).map((key) => ({ request_delete_range: { key } }))
      await this.#call('txn', { success })
    }
    for (const { key, value } of changed) await this.#call('put', { key, value })
    return [...made, ...changed.map(({ key }) => key)].map(textOf)
  }

  /** @returns the value; undefined: there is no such key */
  async get(key: string): Promise<string | undefined> {
    const { kvs = [] } = (await this.#call('range', { key: Buffer.from(key).toString('base64') })) as { kvs?: Entry[] }
    return kvs[0] && textOf(kvs[0].value)
  }

  /** Writes a value that the API server would refuse. */
  async put(key: string, value: string): Promise<void> {
    await this.#call('put', { key: Buffer.from(key).toString('base64'), value: Buffer.from(value).toString('base64') })
  }

  async delete(key: string): Promise<void> {
    await this.#call('deleterange', { key: Buffer.from(key).toString('base64') })
  }

  async #call(method: string, body: object): Promise<unknown> {
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    const sent = request({ socketPath: this.#socketPath, path: `/v3/kv/${method}`, method: 'POST' }, (answer) => {
      const read = text(answer)
      if (answer.statusCode === 200) read.then(resolve, reject)
      else read.then((said) => reject(new Error(`etcd: ${method}: ${answer.statusCode} ${said}`)), reject)
    })
    sent.once('error', reject)
    sent.end(JSON.stringify(body))
    return JSON.parse(await promise)
  }
}

const isOwn = (name: string) => ownKeys.some((own) => name.startsWith(own))

const textOf = (base64: string) => Buffer.from(base64, 'base64').toString()
