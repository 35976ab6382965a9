import { execFile } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { ApiClient, type KubernetesObject } from '../../../dev/control-plane/api-client.ts'
import { signServiceAccountToken, type TokenOptions } from '../../../dev/control-plane/service-account.ts'
import type { Processes } from '../processes.ts'

/** Registry of each node, on the node's own loopback: it has no images. */
export const emptyRegistry = '127.0.0.1:5000'

/** A cluster with real nodes, from inside its network. It ends with the command that runs there. */
export class NodeCluster {
  /** folder of all files, with the logs of all programs */
  readonly folder: string
  readonly server = 'https://10.211.0.1:6443'
  /** address of this process for Pods and for the API server */
  readonly address = '10.211.0.1'
  /** acts as an administrator */
  readonly admin: ApiClient
  readonly #accountsKey: string

  private constructor(folder: string, admin: ApiClient, accountsKey: string) {
    this.folder = folder
    this.admin = admin
    this.#accountsKey = accountsKey
  }

  static async open(folder: string): Promise<NodeCluster> {
    const read = (name: string) => readFile(join(folder, name), 'utf8')
    const [ca, certificate, key, accountsKey] = await Promise.all(
      ['ca.crt', 'admin.crt', 'admin.key', 'accounts.key'].map(read),
    )
    const admin = new ApiClient({ server: 'https://10.211.0.1:6443', ca, certificate, key } as {
      server: string
      ca: string
    })
    return new NodeCluster(folder, admin, accountsKey as string)
  }

  get caFile(): string {
    return join(this.folder, 'ca.crt')
  }

  signToken(options: TokenOptions): string {
    return signServiceAccountToken(this.#accountsKey, options)
  }

  /** Creates objects in this order. */
  async create(...objects: readonly KubernetesObject[]): Promise<void> {
    for (const object of objects) await this.admin.create(collectionOf(object), object)
  }

  /** Starts a registry on the node that answers 404. */
  async startEmptyRegistry(node: number, processes: Processes): Promise<void> {
    const args = [`--net=/run/netns/n${node}`, 'busybox', 'httpd', '-f', '-p', emptyRegistry, '-h', processes.folder]
    await processes.spawn({ command: 'nsenter', args })
  }

  /** Kills the node's kubelet, so that the node is silent; its containers go on. */
  async killKubelet(node: number): Promise<void> {
    process.kill(Number(await readFile(join(this.folder, `n${node}`, 'kubelet.pid'), 'utf8')), 'SIGKILL')
  }

  /** Kills the node: its link goes down, and all its processes end without a word. */
  async killNode(node: number): Promise<void> {
    await promisify(execFile)('ip', ['link', 'set', `v${node}`, 'down'])
    const own = join(this.folder, `n${node}`)
    const group = `/${basename(this.folder)}-${node}/`
    const programs = ['kubelet', 'kube-proxy', 'containerd'].map((name) => readFile(join(own, `${name}.pid`), 'utf8'))
    for (const pid of await Promise.all(programs)) kill(Number(pid))
    for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
      const about = (file: string) => readFile(`/proc/${pid}/${file}`, 'utf8').catch(() => '') // it has ended meanwhile
      const isShim = (await about('cmdline')).includes(join(own, 'containerd.sock'))
      if (isShim || (await about('cgroup')).includes(group)) kill(Number(pid))
    }
  }

  close(): void {
    this.admin.close()
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error // it ended with another
  }
}

/** Returns the path of the collection of an object. */
export function collectionOf({ apiVersion, kind, metadata }: KubernetesObject): string {
  const { namespace } = metadata
  const plural = `${kind.toLowerCase()}${/(?:s|x|ch)$/.test(kind) ? 'es' : 's'}`.replace(/(?<![aeo])ys$/, 'ies')
  const root = `/${apiVersion.includes('/') ? 'apis' : 'api'}/${apiVersion}`
  return `${root}${namespace ? `/namespaces/${namespace}` : ''}/${plural}`
}

export const pathOf = (object: KubernetesObject) => `${collectionOf(object)}/${object.metadata.name}`
