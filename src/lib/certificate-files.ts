import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createSecureContext } from 'node:tls'
import { type Clock, systemClock } from './clock.ts'
import { KasError } from './errors.ts'
import { fileProblem } from './file-problem.ts'
import { FolderWatch } from './folder-watch.ts'
import { Listeners } from './listeners.ts'
import type { Logger } from './log.ts'
import { RepeatedRead } from './repeated-read.ts'
import type { Service } from './service.ts'

export interface Certificate {
  readonly cert: Buffer
  readonly key: Buffer
}

export interface CertificateFilesOptions {
  readonly certificateFile: string
  readonly keyFile: string
  /** time without changes in the folder before the files are read again, since two files change one after the other */
  readonly settleMs?: number
}

const defaultSettleMs = 250
/**
 * Interval at which the files are read whatever the watch says: targets of links in other folders are not watched. ms
 */
export const certificatePollMs = 10_000

/**
 * A certificate and its key, read again when their folders change (a mounted Secret swaps symlinks there). Files that
 * do not fit together are logged, and the last good pair stays.
 */
export class CertificateFiles implements Service {
  readonly #log: Logger
  readonly #clock: Clock
  readonly #options: CertificateFilesOptions
  readonly #watch: FolderWatch
  readonly #listeners = new Listeners<Certificate>()
  #current: Certificate | undefined
  readonly #reading = new RepeatedRead(() => this.#read())
  /** reason why the files on the disk cannot be used: logged once */
  #problem: string | undefined
  #stopped = false

  constructor({ log, clock = systemClock }: { log: Logger; clock?: Clock }, options: CertificateFilesOptions) {
    this.#log = log
    this.#clock = clock
    this.#options = options
    const { certificateFile, keyFile, settleMs = defaultSettleMs } = options
    const onChange = () => void this.#reading.now()
    this.#watch = new FolderWatch(
      [certificateFile, keyFile],
      { clock, log, onChange },
      { debounceMs: settleMs, safetyPollMs: certificatePollMs },
    )
  }

  /** The pair in use; only after `start`. */
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
      this.#current = await this.#pair()
    } catch (error) {
      const problem = `cannot be used with key ${keyFile}: ${problemOf(error)}`
      throw new KasError({ code: 'SETTINGS_INVALID', file: certificateFile, problems: [problem] }, { cause: error })
    }
    this.#warnOfDates(this.#current)
    this.#watch.start()
    await this.#reading.now() // reads a change since the first read
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#watch.stop()
    this.#listeners.clear()
    await this.#reading.stop()
  }

  async #read(): Promise<void> {
    const { certificateFile } = this.#options
    try {
      const next = await this.#pair()
      this.#problem = undefined
      if (next === this.#current || this.#stopped) return
      this.#current = next
      this.#listeners.notify(next)
      this.#log.info({ certificate_file: certificateFile }, 'Certificate was read again')
      this.#warnOfDates(next)
    } catch (error) {
      const { message } = error as Error
      if (message === this.#problem) return
      this.#problem = message
      this.#log.error({ error, certificate_file: certificateFile }, 'Certificate is not usable, the last one stays')
    }
  }

  #warnOfDates({ cert }: Certificate): void {
    const { validFrom, validTo } = new X509Certificate(cert)
    const now = this.#clock.now()
    if (now >= Date.parse(validFrom) && now <= Date.parse(validTo)) return
    const fields = { certificate_file: this.#options.certificateFile, valid_from: validFrom, valid_to: validTo }
    this.#log.warn(fields, 'Certificate is not valid at this time: renew it, or set the clock of this machine')
  }

  /** @throws the error of a read, or an error that the files do not fit together */
  async #pair(): Promise<Certificate> {
    const [cert, key] = await Promise.all([readFile(this.#options.certificateFile), readFile(this.#options.keyFile)])
    if (this.#current?.cert.equals(cert) && this.#current.key.equals(key)) return this.#current
    createSecureContext({ cert, key })
    return { cert, key }
  }
}

function problemOf(error: unknown): string {
  const { code } = error as { code?: unknown }
  if (code === 'ERR_OSSL_X509_KEY_VALUES_MISMATCH') return 'it is the key of another certificate: name the pair'
  return fileProblem(error)
}
