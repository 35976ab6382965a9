import { type FSWatcher, watch } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { createSecureContext } from 'node:tls'
import { KasError } from './errors.ts'
import type { Logger } from './log.ts'
import type { Service } from './service.ts'

export interface Certificate {
  readonly cert: Buffer
  readonly key: Buffer
}

export interface CertificateFilesOptions {
  readonly certificateFile: string
  readonly keyFile: string
  /** how long the folder must be quiet before the files are read again, since two files change one after the other */
  readonly settleMs?: number
}

const defaultSettleMs = 250

/**
 * A certificate and its key, read again when their folders change (a mounted Secret swaps symlinks there).
 * Files that do not fit together are told in the log and the last good pair stays.
 */
export class CertificateFiles implements Service {
  readonly #log: Logger
  readonly #options: CertificateFilesOptions
  readonly #listeners = new Set<(certificate: Certificate) => void>()
  #current: Certificate | undefined
  #watchers: FSWatcher[] = []
  #settling: NodeJS.Timeout | undefined

  constructor(components: { log: Logger }, options: CertificateFilesOptions) {
    this.#log = components.log
    this.#options = options
  }

  /** The pair in force; only after `start`. */
  get current(): Certificate {
    if (!this.#current) throw new Error('the certificate is read at start')
    return this.#current
  }

  /** Calls `listener` with each new pair. */
  onChange(listener: (certificate: Certificate) => void): void {
    this.#listeners.add(listener)
  }

  /** @throws KasError SETTINGS_INVALID if the first pair cannot be read or does not fit together */
  async start(): Promise<void> {
    const { certificateFile, keyFile } = this.#options
    try {
      this.#current = await this.#read()
    } catch (error) {
      const problem = `cannot be used with key ${keyFile}: ${(error as Error).message}`
      throw new KasError({ code: 'SETTINGS_INVALID', file: certificateFile, problems: [problem] }, { cause: error })
    }
    const folders = new Set([certificateFile, keyFile].map(dirname))
    this.#watchers = [...folders].map((folder) => watch(folder, { persistent: false }, () => this.#changed()))
    for (const watcher of this.#watchers)
      watcher.on('error', (error) => this.#log.warn({ error }, 'Certificate folder is no longer watched'))
  }

  async stop(): Promise<void> {
    clearTimeout(this.#settling)
    for (const watcher of this.#watchers.splice(0)) watcher.close()
    this.#listeners.clear()
  }

  #changed(): void {
    clearTimeout(this.#settling)
    this.#settling = setTimeout(() => void this.#readAgain(), this.#options.settleMs ?? defaultSettleMs).unref()
  }

  async #readAgain(): Promise<void> {
    try {
      const next = await this.#read()
      if (this.#current?.cert.equals(next.cert) && this.#current.key.equals(next.key)) return
      this.#current = next
      for (const listener of this.#listeners) listener(next)
      this.#log.info({ certificate_file: this.#options.certificateFile }, 'Certificate was read again')
    } catch (error) {
      this.#log.error(
        { error, certificate_file: this.#options.certificateFile },
        'Certificate is not usable, the last one stays',
      )
    }
  }

  async #read(): Promise<Certificate> {
    const [cert, key] = await Promise.all([readFile(this.#options.certificateFile), readFile(this.#options.keyFile)])
    createSecureContext({ cert, key }) // throws when they do not fit together
    return { cert, key }
  }
}
