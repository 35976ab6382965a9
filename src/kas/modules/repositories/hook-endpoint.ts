import { randomBytes } from 'node:crypto'
import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import { HourlyLog } from '../../../lib/limited-log.ts'
import type { Logger } from '../../../lib/log.ts'
import type { KasHost } from '../../module.ts'
import type { OwnAnswer, SignedEndpoint } from '../../own-endpoint.ts'
import { readHookSecret } from '../../repositories/hook-secret.ts'
import { hookSignature } from './hook-signature.ts'

export interface HookEndpointComponents {
  readonly hookSecretFile: NonNullable<KasHost['repositories']['hookSecretFile']>
  /**
   * file to read for a project without a secret, so that both take equally long; undefined: no project has one, and
   * bodies are not read
   */
  readonly someHookSecretFile: () => string | undefined
  /** Polls the repository of this project, which may have moved. */
  readonly poll: (projectId: bigint) => void
  readonly clock: Clock
  readonly log: Logger
}

const accepted: OwnAnswer = {
  status: 202,
  mediaType: 'text/plain',
  body: Buffer.from('The repository is polled\n'),
}

/**
 * `POST <prefix>hooks/git/<project id>`: a Git server announces a push. Its content is not read: it may be an old
 * delivery that is sent again. All it shows is that the repository may have moved.
 *
 * @see doc/reference/directory.md "Hooks"
 */
export function hookEndpoint(components: HookEndpointComponents): SignedEndpoint {
  const { hookSecretFile, someHookSecretFile, poll, clock, log } = components
  const unreadable = new HourlyLog({ clock, log })
  /** replaces a missing secret: the time of an answer reveals no more to a stranger than its text */
  const nobodys = randomBytes(32).toString('hex')
  const readOwn = async (projectId: bigint, file: string) => {
    try {
      return await readHookSecret(file)
    } catch (error) {
      const fields = { project_id: String(projectId), file, error: (error as Error).message }
      unreadable.log('warn', fields, 'hook_secret_file cannot be used: hooks are refused')
      return nobodys
    }
  }
  const secretOf = async (projectId: bigint | undefined, some: string) => {
    const file = projectId === undefined ? undefined : hookSecretFile(projectId)
    if (projectId !== undefined && file !== undefined) return await readOwn(projectId, file)
    await readHookSecret(some).catch(() => undefined) // takes the same time
    return nobodys
  }
  return {
    path: '/hooks/git/',
    methods: ['POST'],
    async open({ name, header }) {
      const signature = hookSignature({ header })
      if (!signature) throw refused('no signature', 'X-Hub-Signature-256, X-Gitea-Signature or X-Gitlab-Token')
      const some = someHookSecretFile()
      if (some === undefined) throw refusedSecret()
      const projectId = /^[1-9]\d{0,15}$/.test(name) ? BigInt(name) : undefined
      const secret = await secretOf(projectId, some)
      if (signature.isRefused(secret)) throw refusedSecret()
      return async (body) => {
        const isSigned = await signature.isOf(secret, body)
        if (projectId === undefined || !isSigned) throw refusedSecret()
        poll(projectId)
        return accepted
      }
    },
  }
}

function refusedSecret(): KasError {
  return refused('another secret, or no such hook', 'the secret in hook_secret_file of the project in the path')
}

/** Makes an error that does not reveal which projects exist. */
function refused(found: string, allowed: string): KasError {
  return new KasError({ code: 'CREDENTIALS_INVALID', detail: `hook: found ${found}, allowed: ${allowed}` })
}
