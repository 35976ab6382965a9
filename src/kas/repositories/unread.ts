import { KasError } from '../../lib/errors.ts'
import type { CommitId, Repositories } from './repositories.ts'

/** Repositories that kas has no way to read: agents' streams stay open and wait, and nothing is decided by them. */
export class UnreadRepositories implements Repositories {
  async head(): Promise<CommitId | undefined> {
    throw unread()
  }

  async file(): Promise<Uint8Array | undefined> {
    throw unread()
  }

  onMove(): () => void {
    return () => undefined
  }

  async poke(): Promise<void> {
    // nobody can look
  }
}

function unread(): KasError {
  return new KasError({ code: 'REPOSITORY_FAILED', detail: 'this version does not read the repositories of GitLab' })
}
