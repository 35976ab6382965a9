import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** A call that an API server has answered. */
export interface AuditedCall {
  /** as Kubernetes names it: `list`, `patch` */
  readonly verb: string
  /** path with its query */
  readonly uri: string
  /** HTTP status */
  readonly code: number
  readonly isDryRun: boolean
  /** it may have changed an object */
  readonly isWrite: boolean
}

interface AuditEvent {
  readonly auditID: string
  readonly verb: string
  readonly requestURI: string
  readonly responseStatus?: { readonly code?: number }
}

const writingVerbs: ReadonlySet<string> = new Set(['create', 'update', 'patch', 'delete', 'deletecollection'])
/** reviews answer questions: they are created, and not stored */
const reviews = /^\/apis\/(?:authorization|authentication)\.k8s\.io\//

/** All calls of one user at a real API server, by its audit log. It writes a call before the caller has its answer. */
export class AuditLog {
  readonly file: string
  readonly #policyFile: string
  #read = 0

  private constructor(folder: string) {
    this.file = join(folder, 'audit.log')
    this.#policyFile = join(folder, 'audit-policy.json')
  }

  /** @param folder - absolute path of an empty folder. @param user - the only one whose calls are recorded */
  static async create(folder: string, user: string): Promise<AuditLog> {
    const log = new AuditLog(folder)
    const policy = {
      apiVersion: 'audit.k8s.io/v1',
      kind: 'Policy',
      omitStages: ['RequestReceived'],
      rules: [{ level: 'Metadata', users: [user] }, { level: 'None' }],
    }
    await writeFile(log.#policyFile, JSON.stringify(policy))
    return log
  }

  /** Flags of kube-apiserver; `auditLogFile` of the control plane is `file`. */
  get flags(): readonly string[] {
    return [`--audit-policy-file=${this.#policyFile}`]
  }

  /** Returns the calls since the last `take`, each once. */
  async take(): Promise<AuditedCall[]> {
    const lines = (await readFile(this.file, 'utf8')).split('\n').slice(0, -1)
    const events = lines.slice(this.#read).map((line) => JSON.parse(line) as AuditEvent)
    this.#read = lines.length
    const calls = new Map(events.map((event) => [event.auditID, event])) // a watch has two events
    return Array.from(calls.values(), ({ verb, requestURI: uri, responseStatus }) => {
      const isDryRun = uri.includes('dryRun=All')
      const isWrite = writingVerbs.has(verb) && !isDryRun && !reviews.test(uri)
      return { verb, uri, code: responseStatus?.code ?? 0, isDryRun, isWrite }
    })
  }
}
