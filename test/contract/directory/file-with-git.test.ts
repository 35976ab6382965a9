import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import t from 'tap'
import type { AgentId } from '../../../src/call/call.ts'
import { AgentConfigs } from '../../../src/kas/agent-config/agent-configs.ts'
import { runCli } from '../../../src/kas/cli/cli.ts'
import { DirectoryFile } from '../../../src/kas/directory/file/directory-file.ts'
import { FileDirectory } from '../../../src/kas/directory/file/file-directory.ts'
import { moduleSchemas } from '../../../src/kas/module-schemas.ts'
import { gitRepositories } from '../../../src/kas/repositories/git-repositories.ts'
import { Stages } from '../../../src/lib/service.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { GitRepository } from '../../support/git-repository.ts'
import { rejects } from './directory-suite.ts'

/** All parts together: commands write the directory file, and a push changes the access rules. */
t.test('a user is let in and out by pushes, and by the commands, while kas runs', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'kas-directory-'))
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
  const repository = await GitRepository.create(folder, 'clusters')
  const file = join(folder, 'directory.yaml')
  const kas = async (...argv: string[]) => {
    let stdout = ''
    const sink = {
      write: (text: string) => {
        stdout += text
      },
    }
    const io = {
      env: { KAS_DIRECTORY_FILE: file },
      stdout: sink,
      stderr: { write: () => undefined },
      stdin: Readable.from([]),
    }
    t.equal(await runCli(argv, io), 0)
    return stdout.trim()
  }
  const agentToken = await kas('agent', 'create', 'prod', '--project', 'platform/clusters', '--git', repository.path)
  const key = await kas('user', 'create', 'ada', '--role', 'platform=developer')

  const { log } = capturedLog()
  const directoryFile = new DirectoryFile({ log }, { file, debounceMs: 1 })
  const options = { stateDir: join(folder, 'state'), env: process.env, pollMs: 20 }
  const repositories = gitRepositories({ addresses: directoryFile, log }, options)
  const configurations = new AgentConfigs({ schemas: moduleSchemas, repositories, log })
  const directory = new FileDirectory({ directoryFile, configurations, log })
  const stages = new Stages([directoryFile, repositories, configurations])
  t.teardown(() => stages.stop())
  await stages.start()

  const { signal } = new AbortController()
  const agent = await directory.agentByToken(agentToken, signal)
  const grant = () => directory.grantUser(1n as AgentId, { type: 'personal_access_token', key }, signal)
  const changed = () => new Promise<void>((resolve) => void t.teardown(configurations.onChange(agent, resolve)))
  const path = '.gitlab/agents/prod/config.yaml'

  await rejects(t, grant(), 'USER_UNAUTHORIZED')
  let change = changed()
  await repository.push(path, 'user_access: { access_as: { user: {} }, groups: [{ id: platform }] }')
  await change
  t.match((await grant()).accessAs, { as: 'user', projects: [], groups: [{ id: 1n }] })

  change = changed()
  await repository.push(path, 'user_access: { access_as: [')
  await change
  t.match((await grant()).accessAs, { as: 'user' }, 'a file that is broken changes nothing')

  change = changed()
  await repository.push(path, '{}')
  await change
  await rejects(t, grant(), 'USER_UNAUTHORIZED')

  const reread = new Promise<void>((resolve) => void t.teardown(directory.onChange(() => resolve())))
  await writeFile(file, (await readFile(file, 'utf8')).replace(/tokens:\n +- sha256: \S+/, 'tokens: []'))
  await reread
  await rejects(t, directory.agentByToken(agentToken, signal), 'UNAUTHENTICATED')
})
