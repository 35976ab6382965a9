import type { ClusterSettings, Source } from '../../lib/kubeconfig.ts'
import { WatchedFile } from '../../lib/watched-file.ts'
import type { Impersonation } from '../../proto/http/http-message.ts'

export interface ClusterTls {
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
  readonly servername?: string
  readonly rejectUnauthorized?: boolean
}

/** Address, TLS and credentials of the cluster's API server. Files are read again when they change. */
export class ClusterAccess {
  readonly server: URL
  readonly impersonation: Impersonation | undefined
  readonly settings: ClusterSettings
  readonly #ca: (() => string) | undefined
  readonly #certificate: (() => string) | undefined
  readonly #key: (() => string) | undefined
  readonly #token: (() => string) | undefined
  readonly #files: WatchedFile[] = []
  #tls: ClusterTls | undefined

  constructor(settings: ClusterSettings) {
    this.settings = settings
    this.server = new URL(settings.server)
    this.impersonation = settings.impersonation
    this.#ca = this.#reader(settings.ca)
    this.#certificate = this.#reader(settings.certificate)
    this.#key = this.#reader(settings.key)
    this.#token = this.#reader(settings.token)
  }

  /** Number that grows as files change. If it has grown, a refused request may be repeated. */
  get version(): number {
    return this.#files.reduce((sum, { version }) => sum + version, 0)
  }

  /** Returns the same object as long as nothing has changed. */
  tls(): ClusterTls {
    const { serverName, skipVerify } = this.settings
    const ca = this.#ca?.()
    const cert = this.#certificate?.()
    const key = this.#key?.()
    const known = this.#tls
    if (known && known.ca === ca && known.cert === cert && known.key === key) return known
    this.#tls = {
      ...(ca === undefined ? {} : { ca }),
      ...(cert === undefined ? {} : { cert }),
      ...(key === undefined ? {} : { key }),
      ...(serverName ? { servername: serverName } : {}),
      ...(skipVerify ? { rejectUnauthorized: false } : {}),
    }
    return this.#tls
  }

  /** Returns the value of the Authorization header; undefined: there is none. */
  authorization(): string | undefined {
    if (this.#token) return `Bearer ${this.#token().trim()}`
    const { basic } = this.settings
    return basic && `Basic ${Buffer.from(`${basic.username}:${basic.password}`).toString('base64')}`
  }

  /** Reads all files again now. @returns true if one has changed */
  refresh(): boolean {
    return this.#files.map((file) => file.refresh()).includes(true)
  }

  #reader(source: Source | undefined): (() => string) | undefined {
    if (!source) return undefined
    if ('text' in source) return () => source.text
    const file = new WatchedFile(source.file)
    this.#files.push(file)
    return () => file.text()
  }
}
