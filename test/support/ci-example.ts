import { spawn } from 'node:child_process'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { parse } from 'yaml'
import { mainOf } from './programs.ts'

const file = resolve(import.meta.dirname, '../../deploy/gitops-example/.gitlab-ci.yml')

type Variables = Readonly<Record<string, string>>

interface Job {
  readonly variables?: Variables
  readonly rules: readonly { readonly if: string }[]
  readonly script: readonly string[]
  readonly artifacts?: { readonly reports: { readonly terraform: string } }
}

export interface JobResult {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
  /** its report for the merge request; undefined: the job has none */
  readonly report: string | undefined
}

/** Jobs of deploy/gitops-example/.gitlab-ci.yml, run in a shell as GitLab's runner does. */
export class CiExample {
  readonly #jobs: Readonly<Record<string, Job>>
  readonly #variables: Variables
  readonly #bin: string

  private constructor(jobs: Readonly<Record<string, Job>>, variables: Variables, bin: string) {
    this.#jobs = jobs
    this.#variables = variables
    this.#bin = bin
  }

  /** @param folder - folder for `kas`, as the job's image has it */
  static async read(folder: string): Promise<CiExample> {
    const { stages: _, variables, ...jobs } = parse(await readFile(file, 'utf8'))
    const bin = join(folder, 'bin')
    await mkdir(bin)
    const script = `#!/bin/sh\nexec '${process.execPath}' '${mainOf('kas')}' "$@"\n`
    await writeFile(join(bin, 'kas'), script, { mode: 0o755 })
    return new CiExample(jobs, variables, bin)
  }

  /** Names of the jobs in a pipeline, by the text of their rule. */
  jobsWith(rule: string): readonly string[] {
    return Object.keys(this.#jobs).filter((name) => this.#jobs[name]?.rules.some((one) => one.if === rule))
  }

  /**
   * Runs the script of a job.
   *
   * @param folder - clone of the job
   * @param given - variables of GitLab and of the project, which come before those of the file
   */
  async run(name: string, folder: string, given: Variables): Promise<JobResult> {
    const job = this.#jobs[name]
    if (!job) throw new Error(`the example has no job ${name}`)
    const variables = { CI_PROJECT_DIR: folder, ...this.#variables, ...job.variables, ...given }
    const env = {
      PATH: `${this.#bin}:${process.env.PATH}`,
      HOME: folder,
      CI: 'true',
      ...Object.fromEntries(Object.entries(variables).map(([key, value]) => [key, expanded(value, variables)])),
    }
    const script = ['set -eo pipefail', ...job.script].join('\n')
    const shell = spawn('bash', ['-c', script], { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] })
    const ended = new Promise<number | null>((done, failed) => shell.once('close', done).once('error', failed))
    const [stdout, stderr, code] = await Promise.all([text(shell.stdout), text(shell.stderr), ended])
    const report = job.artifacts?.reports.terraform
    return {
      code,
      stdout,
      stderr,
      report: report === undefined ? undefined : await readFile(join(folder, report), 'utf8').catch(() => ''),
    }
  }
}

/** Expands variables in the value of another one. */
function expanded(value: string, variables: Variables): string {
  return value.replaceAll(/\$(\w+)/g, (_, name: string) => variables[name] ?? '')
}
