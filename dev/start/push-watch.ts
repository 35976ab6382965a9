import { type FSWatcher, watch } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { create, toBinary } from '@bufbuild/protobuf'
import { Client, credentials, Metadata } from '@grpc/grpc-js'
import { SignJWT } from 'jose/jwt/sign'
import { GitPushEventRequestSchema, Notifications } from '../../src/proto/gen/notifications_pb.ts'
import { methodPath } from '../../src/proto/unary.ts'
import type { LocalReplica } from './local-replica.ts'
import { agent, files } from './settings.ts'

/** GitLab's own limit. ms */
const timeoutMs = 5000
const tokenLifeSeconds = 60

export interface PushWatchOptions {
  /** the state folder */
  readonly folder: string
  readonly replicas: readonly LocalReplica[]
}

/**
 * Notifies a replica of each push to the project's repository, as GitLab does. If that fails, polls find the push
 * within seconds.
 */
export class PushWatch {
  readonly #options: PushWatchOptions
  #watcher: FSWatcher | undefined

  constructor(options: PushWatchOptions) {
    this.#options = options
  }

  start(): void {
    const { folder } = this.#options
    this.#watcher = watch(join(folder, files.repository, 'refs/heads'), (_, name) => {
      if (name !== null && !name.endsWith('.lock')) void this.#tell()
    })
    this.#watcher.on('error', () => this.stop()) // the folder was removed
  }

  stop(): void {
    this.#watcher?.close()
  }

  /** Notifies replicas in turn, until one accepts: that one notifies the others. */
  async #tell(): Promise<void> {
    const { folder, replicas } = this.#options
    for (const { pid, ports } of replicas) {
      if (pid !== undefined && (await tellPush(folder, ports.rails))) return
    }
  }
}

/** Notifies one replica, at its port for GitLab. @returns true if it accepted */
export async function tellPush(folder: string, port: number): Promise<boolean> {
  const secret = Buffer.from(await readFile(join(folder, files.secret), 'utf8'), 'base64')
  const now = Math.floor(Date.now() / 1000)
  const token = await new SignJWT({ iss: 'npm-start', aud: 'gitlab-kas', iat: now, exp: now + tokenLifeSeconds })
    .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
    .sign(secret)
  const metadata = new Metadata()
  metadata.set('authorization', `bearer ${token}`)
  const { id, path } = agent.project
  const event = { project: { id: BigInt(id), fullPath: path } }
  const request = toBinary(GitPushEventRequestSchema, create(GitPushEventRequestSchema, { event }))
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), { 'grpc.enable_http_proxy': 0 })
  const options = { deadline: Date.now() + timeoutMs }
  try {
    return await new Promise((resolve) => {
      const raw = (bytes: Buffer) => bytes
      const method = methodPath(Notifications.method.gitPushEvent)
      client.makeUnaryRequest(method, raw, raw, Buffer.from(request), metadata, options, (error) => resolve(!error))
    })
  } finally {
    client.close()
  }
}
