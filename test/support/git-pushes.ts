import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import { create, toBinary } from '@bufbuild/protobuf'
import * as grpc from '@grpc/grpc-js'
import { GitPushEventRequestSchema } from '../../src/proto/gen/notifications_pb.ts'
import { callUnary, jwt, metadataOf } from '../contract/rails-server/start-server.ts'

export interface GitPushesOptions {
  /** absolute path of a bare repository, whose branch `main` has a commit */
  readonly repository: string
  /** absolute path of the secret that GitLab and kas share */
  readonly secretFile: string
  readonly project: { readonly id: number; readonly path: string }
  /** branches beside `main` that have a commit */
  readonly branches?: readonly string[]
}

const method = '/gitlab.agent.notifications.rpc.Notifications/GitPushEvent'
/** Limit of a notification, as GitLab has it. ms */
const tellTimeoutMs = 5000

/** Commits into a repository without a clone, and notifies replicas of kas, as GitLab does. */
export class GitPushes {
  readonly #options: GitPushesOptions
  readonly #clients = new Map<number, grpc.Client>()
  readonly #branches: Set<string>

  constructor(options: GitPushesOptions) {
    this.#options = options
    this.#branches = new Set(['main', ...(options.branches ?? [])])
  }

  /**
   * Makes one commit. Not for two tasks at a time.
   *
   * @param files - contents by path; null: the file is removed
   * @param branch - a new one begins with these files alone
   * @returns its id, once the branch has moved
   */
  async commit(files: Readonly<Record<string, string | null>>, branch = 'main'): Promise<string> {
    const ref = `refs/heads/${branch}`
    const changes = Object.entries(files).map(([path, content]) =>
      content === null ? `D ${path}\n` : `M 100644 inline ${path}\n${data(content)}`,
    )
    const head = `commit ${ref}\ncommitter Ada <ada@example.com> ${Math.floor(Date.now() / 1000)} +0000\n`
    const from = this.#branches.has(branch) ? `from ${ref}^0\n` : ''
    await this.#git(['fast-import', '--quiet'], `${head}${data('Change')}${from}${changes.join('')}`)
    this.#branches.add(branch)
    return (await this.#git(['rev-parse', ref])).trim()
  }

  /**
   * Notifies a replica of a push; resolves once the replica has notified the others.
   *
   * @param port - port of 127.0.0.1 where the replica accepts GitLab
   * @throws Error if it does not answer; GitLab does not repeat it
   */
  async tell(port: number): Promise<void> {
    const { secretFile, project } = this.#options
    const key = Buffer.from(await readFile(secretFile, 'utf8'), 'base64')
    const event = { project: { id: BigInt(project.id), fullPath: project.path } }
    const request = toBinary(GitPushEventRequestSchema, create(GitPushEventRequestSchema, { event }))
    const metadata = metadataOf({ authorization: `bearer ${await jwt({ key })}` })
    const deadline = Date.now() + tellTimeoutMs
    const { code, details } = await callUnary(this.#client(port), method, request, metadata, { deadline })
    if (code !== grpc.status.OK) throw new Error(`the replica was not told of a push: ${code} ${details}`)
  }

  close(): void {
    for (const client of this.#clients.values()) client.close()
  }

  #client(port: number): grpc.Client {
    const known = this.#clients.get(port)
    const client = known ?? new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure())
    this.#clients.set(port, client)
    return client
  }

  async #git(argv: readonly string[], input = ''): Promise<string> {
    const git = spawn('git', ['-C', this.#options.repository, ...argv], { stdio: ['pipe', 'pipe', 'pipe'] })
    const ended = once(git, 'close')
    git.stdin.once('error', () => undefined) // it has ended: its status has the reason
    git.stdin.end(input)
    const [said, failure] = await Promise.all([text(git.stdout), text(git.stderr)])
    const [status] = await ended
    if (status !== 0) throw new Error(`git ${argv[0]} ended with ${status}: ${failure}`)
    return said
  }
}

const data = (content: string) => `data ${Buffer.byteLength(content)}\n${content}\n`
