import t from 'tap'
import type { Turn } from '../../../../../src/kas/directory/gitlab/gitlab-call-limit.ts'
import type { GitlabClient } from '../../../../../src/kas/directory/gitlab/gitlab-client.ts'
import { askProject } from '../../../../../src/kas/directory/gitlab/project-info.ts'
import { KasError } from '../../../../../src/lib/errors.ts'

t.test('all questions about a project that an agent names wait in a queue of their own, by agent', async (t) => {
  const turns: Turn[] = []
  const refusal = new KasError({ code: 'GITLAB_STATUS', status: 404, path: '' })
  const asked = async ({ queue, source = '' }: Turn) => {
    turns.push({ queue, source })
    if (turns.length !== 2) throw refusal
  }
  const client = { ask: asked, send: asked } as unknown as Pick<GitlabClient, 'ask' | 'send'>
  const question = { project: 'made/up', headers: {}, source: 'one' }
  await t.rejects(askProject(client, question, new AbortController().signal), refusal)
  t.strictSame(turns, Array(3).fill({ queue: 'projects', source: 'one' }))
})
