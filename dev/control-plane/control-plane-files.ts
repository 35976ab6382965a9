import { generateKeyPairSync } from 'node:crypto'
import { mkdir, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Authority, type Pem } from '../certificates.ts'
import { kubeconfigText } from './kubeconfig.ts'
import { logLine } from './simulated-kubelet.ts'

/** common name under which the API server dials the kubelet */
export const kubeletClient = 'kube-apiserver-kubelet-client'

/** Users with a client certificate for the API server, and a kubeconfig. */
const clients = {
  admin: { commonName: 'admin', organizations: ['system:masters'] },
  controllers: { commonName: 'system:kube-controller-manager' },
  scheduler: { commonName: 'system:kube-scheduler' },
  'kubelet-client': { commonName: kubeletClient },
} as const

/** 10.0.0.1 is the first service address: that of the API server itself */
const servingNames = { dns: ['localhost', 'kubernetes.default.svc'], ip: ['127.0.0.1', '10.0.0.1'] }

const auditPolicy = {
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  omitStages: ['RequestReceived'],
  rules: [{ level: 'Metadata' }],
}

/** Files that the programs of a control plane read, in one folder that only its owner can enter. */
export class ControlPlaneFiles {
  readonly folder: string
  readonly #server: string
  #authority: Authority | undefined
  #adminKeys: Pem | undefined
  #servingKeys: Pem | undefined
  #accountsKey = ''

  /** @param options.server - URL of the API server */
  constructor(options: { folder: string; server: string }) {
    this.folder = options.folder
    this.#server = options.server
  }

  path(name: string): string {
    return join(this.folder, name)
  }

  /** PEM */
  get ca(): string {
    return this.#required(this.#authority).certificate
  }

  get adminKeys(): Pem {
    return this.#required(this.#adminKeys)
  }

  get servingKeys(): Pem {
    return this.#required(this.#servingKeys)
  }

  /** PEM of the key that signs service account tokens */
  get accountsKey(): string {
    return this.#accountsKey
  }

  async write(): Promise<void> {
    this.#authority = await Authority.create('control plane')
    await this.#file('ca.crt', this.ca)
    await this.writeServingCertificate()
    for (const [name, request] of Object.entries(clients)) {
      const keys = await this.#authority.issueClient(request)
      await this.#keyPair(name, keys)
      await this.#file(`${name}.kubeconfig`, this.#kubeconfig(name))
      if (name === 'admin') this.#adminKeys = keys
    }
    const accounts = generateKeyPairSync('rsa', {
      modulusLength: 2048,
      publicKeyEncoding: { type: 'spki', format: 'pem' },
      privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    })
    this.#accountsKey = accounts.privateKey
    await this.#file('accounts.key', accounts.privateKey)
    await this.#file('accounts.pub', accounts.publicKey)
    await this.#file('audit.json', JSON.stringify(auditPolicy))
    await mkdir(this.path('pod'))
    await this.#file('pod.log', logLine('hello from the pod'))
  }

  /** Writes a new key and certificate for the API server (and the kubelet), from the same authority. */
  async writeServingCertificate(): Promise<Pem> {
    const keys = await this.#required(this.#authority).issueServing(servingNames)
    await this.#keyPair('serving', keys)
    this.#servingKeys = keys
    return keys
  }

  async #keyPair(name: string, keys: Pem): Promise<void> {
    await this.#file(`${name}.crt`, keys.certificate)
    await this.#file(`${name}.key`, keys.key)
  }

  #kubeconfig(client: string): string {
    const user = { certificateFile: this.path(`${client}.crt`), keyFile: this.path(`${client}.key`) }
    return kubeconfigText({ server: this.#server, caFile: this.path('ca.crt'), user })
  }

  /** Writes a file completely or not at all, since programs read some files again while they change. */
  async #file(name: string, content: string): Promise<void> {
    await writeFile(this.path(`${name}.new`), content, { mode: 0o600 })
    await rename(this.path(`${name}.new`), this.path(name))
  }

  #required<T>(part: T | undefined): T {
    if (part === undefined) throw new Error('the control plane has not been started')
    return part
  }
}
