import type { Test } from 'tap'
import type { AgentId } from '../../../src/call/call.ts'
import type { Directory, KnownCaller } from '../../../src/kas/directory/directory.ts'
import { type ErrorCode, KasError } from '../../../src/lib/errors.ts'

/**
 * Promises of every Directory. An implementation sets up this world:
 * - agent 42 `prod` of project 1 `platform/clusters` in group 7
 * - user 5 `ada`, maintainer of project 1, and user 6 `bob`, reporter of project 1
 * - CI job 900 of project 1, and CI job 902 of project 3 `other/thing`
 * - CI job 901 (environment prod-eu) of project 2 `apps/web` in group 8 `apps`
 */
export interface DirectoryWorld {
  readonly directory: Directory
  readonly tokens: {
    readonly agent: string
    readonly ada: string
    readonly bob: string
    readonly jobs: Readonly<Record<'clusters' | 'web' | 'other', string>>
  }
}

/** @param start - sets up the world with this configuration file of agent 42 */
export function directorySuite(
  t: Test,
  name: string,
  start: (t: Test, configuration: string) => Promise<DirectoryWorld>,
): void {
  const signal = new AbortController().signal
  const agentId = 42n as AgentId

  t.test(`${name}: an agent by its token`, async (t) => {
    const { directory, tokens } = await start(t, '')
    t.same(await directory.agentByToken(tokens.agent, signal), {
      id: 42n,
      name: 'prod',
      project: { id: 1n, path: 'platform/clusters' },
    })
    for (const wrong of ['', 'x', `${tokens.agent} `, tokens.ada, tokens.jobs.web]) {
      await rejects(t, directory.agentByToken(wrong, signal), 'UNAUTHENTICATED')
    }
  })

  t.test(`${name}: a CI job as itself, by project`, async (t) => {
    const { directory, tokens } = await start(
      t,
      'ci_access: { projects: [{ id: Apps/Web, access_as: { ci_job: {} } }] }',
    )
    t.same(await directory.grantJob(agentId, tokens.jobs.web, signal), {
      accessAs: { as: 'ci_job' },
      configProjectId: 1n,
      user: { id: 5n, username: 'ada' },
      job: { id: 901n },
      pipeline: { id: 91n },
      project: { id: 2n, groups: [{ id: 8n }] },
      environment: { slug: 'prod-eu', tier: 'production' },
    })
    await rejects(t, directory.grantJob(agentId, tokens.jobs.other, signal), 'AGENT_NOT_ALLOWED')
    await rejects(t, directory.grantJob(43n as AgentId, tokens.jobs.web, signal), 'AGENT_NOT_ALLOWED')
  })

  t.test(`${name}: the agent's own project is let in without a word, as the agent`, async (t) => {
    const { directory, tokens } = await start(t, '')
    const grant = await directory.grantJob(agentId, tokens.jobs.clusters, signal)
    t.same(grant.accessAs, { as: 'agent' })
    t.equal(grant.environment, undefined)
  })

  // wire: as.impersonate, as.impersonate.all
  t.test(`${name}: a job that impersonates`, async (t) => {
    const { directory, tokens } = await start(
      t,
      'ci_access: { groups: [{ id: apps, access_as: { impersonate: { username: robot, groups: [a, b], uid: u, extra: [{ key: k, val: [1, 2] }] } } }] }'.replace(
        '[1, 2]',
        '["1", "2"]',
      ),
    )
    t.same((await directory.grantJob(agentId, tokens.jobs.web, signal)).accessAs, {
      as: 'impersonate',
      impersonate: { username: 'robot', groups: ['a', 'b'], uid: 'u', extra: [{ key: 'k', val: ['1', '2'] }] },
    })
  })

  // wire: rest.unknown-access
  t.test(`${name}: an access_as that is not known is refused, never the agent's own identity`, async (t) => {
    const { directory, tokens } = await start(
      t,
      'ci_access: { projects: [{ id: apps/web, access_as: { ci_user: {} } }] }\nuser_access: { access_as: { robot: {} }, projects: [{ id: platform/clusters }] }',
    )
    await rejects(t, directory.grantJob(agentId, tokens.jobs.web, signal), 'IMPERSONATION_UNKNOWN')
    const credential = { type: 'personal_access_token', key: tokens.ada } as const
    await rejects(t, directory.grantUser(agentId, credential, signal), 'IMPERSONATION_UNKNOWN')
  })

  t.test(`${name}: who it is is said before he is refused`, async (t) => {
    const { directory, tokens } = await start(
      t,
      'user_access: { access_as: { robot: {} }, projects: [{ id: platform/clusters }] }',
    )
    const known: KnownCaller[] = []
    const how = { onKnown: (who: KnownCaller) => known.push(who) }
    await rejects(t, directory.grantJob(agentId, tokens.jobs.other, signal, how), 'AGENT_NOT_ALLOWED')
    t.match(known.splice(0), [{ user: { id: 5n, username: 'ada' }, job: { projectId: 3n } }])
    const credential = { type: 'personal_access_token', key: tokens.ada } as const
    await rejects(t, directory.grantUser(agentId, credential, signal, how), 'IMPERSONATION_UNKNOWN')
    t.match(known.splice(0), [{ user: { id: 5n, username: 'ada' }, job: undefined }])
    await rejects(t, directory.grantJob(agentId, 'x', signal, how), 'JOB_TOKEN_UNAUTHORIZED')
    await rejects(t, directory.grantUser(agentId, { ...credential, key: 'x' }, signal, how), 'USER_UNAUTHORIZED')
    t.strictSame(known, [], 'nobody knows them')
  })

  t.test(`${name}: wrong job tokens`, async (t) => {
    const { directory, tokens } = await start(t, '')
    for (const wrong of ['', 'x', tokens.agent, tokens.ada]) {
      await rejects(t, directory.grantJob(agentId, wrong, signal), 'JOB_TOKEN_UNAUTHORIZED')
    }
  })

  t.test(`${name}: a user as such, with roles from the lowest up`, async (t) => {
    const { directory, tokens } = await start(
      t,
      'user_access: { access_as: { user: {} }, projects: [{ id: Platform/Clusters }] }',
    )
    const as = (key: string) => directory.grantUser(agentId, { type: 'personal_access_token', key }, signal)
    const { endsAt: _, ...grant } = await as(tokens.ada)
    t.same(grant, {
      accessAs: {
        as: 'user',
        projects: [{ id: 1n, roles: ['guest', 'planner', 'reporter', 'developer', 'maintainer'] }],
        groups: [],
      },
      configProjectId: 1n,
      user: { id: 5n, username: 'ada' },
    })
    await rejects(t, as(tokens.bob), 'USER_UNAUTHORIZED')
    for (const wrong of ['', 'x', tokens.agent]) await rejects(t, as(wrong), 'USER_UNAUTHORIZED')
  })

  t.test(`${name}: a user as the agent, and one whom no user_access lets in`, async (t) => {
    const open = await start(t, 'user_access: { access_as: { agent: {} }, projects: [{ id: platform/clusters }] }')
    const credential = { type: 'personal_access_token', key: open.tokens.ada } as const
    t.same((await open.directory.grantUser(agentId, credential, signal)).accessAs, { as: 'agent' })
    const closed = await start(t, 'user_access: { projects: [{ id: platform/clusters }] }')
    const other = { ...credential, key: closed.tokens.ada }
    await rejects(t, closed.directory.grantUser(agentId, other, signal), 'USER_UNAUTHORIZED')
  })
}

export async function rejects(t: Test, promise: Promise<unknown>, code: ErrorCode): Promise<void> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  t.equal(error instanceof KasError ? error.code : error, code)
}
