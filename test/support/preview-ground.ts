import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import type { Test } from 'tap'
import { kubeconfigText } from '../../dev/control-plane/kubeconfig.ts'
import { exampleFor } from '../../dev/start/example-repository.ts'
import { LocalStack } from '../../dev/start/local-stack.ts'
import { anyPorts, replicaCount } from '../../dev/start/ports.ts'
import { tellPush } from '../../dev/start/push-watch.ts'
import { holdersOf, viewReplicas } from '../../dev/start/replica-table.ts'
import { agent, files } from '../../dev/start/settings.ts'
import { CiExample } from './ci-example.ts'
import { eventually } from './eventually.ts'
import { NotesDouble } from './gitlab/notes-double.ts'
import { runKas } from './kas-command.ts'
import { testPrograms } from './programs.ts'

const exec = promisify(execFile)
/** time limit on a busy machine */
export const soon = { timeoutMs: 90_000 }

/**
 * Starts three replicas, an agentk and a real API server, and a GitLab with a merge request. Callers ask a replica that
 * does not hold the agent.
 *
 * @param options.assets - folder with the programs of a control plane
 * @param options.botToken - token of GitLab that may write notes
 */
export async function startPreviewGround(
  t: Test,
  { assets, botToken }: { readonly assets: string; readonly botToken: string },
) {
  const folder = await mkdtemp(join(tmpdir(), 'preview-'))
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
  const ports = await anyPorts(replicaCount)
  const example = (await exampleFor('real'))?.files
  const stack = new LocalStack({ folder, ports, programs: testPrograms, kubeconfig: undefined, assets, example })
  t.teardown(() => stack.stop(AbortSignal.abort()))
  await stack.start()
  const ca = join(folder, files.authority)
  const clone = join(folder, files.clone)
  const git = async (...args: string[]) => (await exec('git', args, { cwd: clone })).stdout.trim()
  const kubectl = async (...args: string[]) => {
    const { stdout } = await exec(join(assets, 'kubectl'), ['--kubeconfig', stack.cluster.kubeconfig, ...args])
    return stdout
  }
  const holders = await eventually(async () => {
    const found = holdersOf(await viewReplicas(stack.replicas))
    return found.length > 0 && found
  }, soon)
  const stranger = stack.replicas.find(({ name }) => !holders.includes(name))
  t.ok(stranger, `one replica does not hold the agent: ${holders}`)
  const server = `https://127.0.0.1:${stranger?.ports.kubernetes}`
  const authority = stack.access.authority
  const kubeconfigOf = async (name: string, token: string) => {
    const file = join(folder, `${name}.kubeconfig`)
    const content = kubeconfigText({ name: `${agent.project.path}:${agent.name}`, server, authority, user: { token } })
    await writeFile(file, content, { mode: 0o600 })
    return file
  }
  const jobHeader = await readFile(join(folder, files.jobHeader), 'utf8')
  const jobCredential = jobHeader.trim().replace('Authorization: Bearer ', '')
  const [, , jobToken = ''] = jobCredential.split(':')
  const job = await kubeconfigOf('job', jobCredential)
  const ada = await kubeconfigOf('ada', stack.access.userCredential)
  const sourceId = await eventually(async () => {
    const { stdout } = await runKas(['gitops', 'status', '-o', 'name'], job)
    const [, id] = /^source\/(\d+-\d+)$/m.exec(stdout) ?? []
    return id !== undefined && id
  }, soon)
  const gitlab = await NotesDouble.start(t, 'projects/1/merge_requests/2')
  gitlab.users.set(botToken, 10)
  return {
    stack,
    ca,
    clone,
    git,
    kubectl,
    job,
    ada,
    gitlab,
    sourceId,
    folder,
    ports,
    example: await CiExample.read(folder),
    /** @param contents - by path; undefined: the file is removed. @returns id of the commit */
    commit: async (contents: Readonly<Record<string, string | undefined>>) => {
      for (const [path, content] of Object.entries(contents)) {
        if (content === undefined) await rm(join(clone, path))
        else {
          await mkdir(dirname(join(clone, path)), { recursive: true })
          await writeFile(join(clone, path), content)
        }
      }
      await git('add', '--all')
      await git('commit', '--quiet', '--allow-empty', '--message', 'change')
      return await git('rev-parse', 'HEAD')
    },
    push: async () => {
      await git('push', '--quiet', 'origin', 'HEAD')
      await tellPush(folder, stack.replicas[0]?.ports.rails ?? 0)
    },
    /** @returns a clone of a branch as a job has it, 20 commits deep */
    jobClone: async (name: string, branch: string) => {
      const path = join(folder, name)
      const bare = `file://${join(folder, files.repository)}`
      await exec('git', ['clone', '--quiet', '--depth', '20', '--branch', branch, bare, path])
      return path
    },
    /** variables that GitLab and the project give a job */
    variables: (commit: string, pipeline: number) => ({
      CI_API_V4_URL: gitlab.url,
      CI_PROJECT_ID: '1',
      CI_PROJECT_PATH: agent.project.path,
      CI_MERGE_REQUEST_IID: '2',
      CI_PIPELINE_ID: String(pipeline),
      CI_COMMIT_SHA: commit,
      CI_JOB_TOKEN: jobToken,
      GITLAB_TOKEN: botToken,
      KUBECONFIG: job,
      KUBE_CONTEXT: `${agent.project.path}:${agent.name}`,
      KAS_URL: server,
      AGENT_ID: String(agent.id),
      SOURCE_ID: sourceId,
      CURL_CA_BUNDLE: ca,
    }),
  }
}
