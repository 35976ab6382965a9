import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { type Found, failed, problemFindings, warningFinding } from '../../../lib/doctor/findings.ts'
import { fileProblem } from '../../../lib/file-problem.ts'
import { type AddressResolver, systemResolver } from '../../../membership/discovery/dns.ts'
import { fullNames, readSearchList, type SearchList } from '../../../membership/discovery/search-list.ts'
import type { KasConfig } from '../../config/kas-schema.ts'
import { parseDirectory } from '../../directory/file/directory-contents.ts'
import { directoryFileChecks } from './directory-files.ts'
import { findingsOfFiles } from './file-check.ts'

/** Checks kas' needs on its machine: a directory file, git, names. */

const run = promisify(execFile)
/** doc/reference/directory.md "Changes" */
const oldestGit = [2, 31] as const
/** bound of a run of git. ms */
const gitTimeoutMs = 5000

export async function checkDirectory({ directory: { file } }: KasConfig): Promise<Found[]> {
  if (file === undefined) return [{ state: 'skipped', text: 'directory.file is not set: GitLab says who is who' }]
  const subject = 'directory.file'
  let text: string
  try {
    text = await readFile(file, 'utf8')
  } catch (error) {
    return [{ ...failed(`${file}: ${fileProblem(error)}`, 'nobody has access until it is there'), subject }]
  }
  try {
    const { contents, warnings } = parseDirectory(file, text)
    const decisive = warnings.filter(({ isDecisive }) => isDecisive).map((one) => warningFinding('directory', one))
    const named = await findingsOfFiles(directoryFileChecks(contents))
    const used = `${file} can be used; agents in it: ${contents.agents.size}`
    return [{ state: 'ok', subject, text: used }, ...decisive, ...named]
  } catch (error) {
    return problemFindings('directory', error, `kas check-config --directory ${file} names what is allowed`)
  }
}

/** Checks git, which fetches the repositories of a directory file. With GitLab, kas uses Gitaly. */
export async function checkGit({ directory: { file } }: KasConfig): Promise<Found[]> {
  if (file === undefined) return [{ state: 'skipped', text: 'GitLab has the repositories' }]
  const advice = `install git ${oldestGit.join('.')} or later on the PATH of kas`
  let version: string
  try {
    version = (await run('git', ['--version'], { timeout: gitTimeoutMs })).stdout.trim()
  } catch (error) {
    return [failed(`git --version: ${(error as Error).message}`, advice)]
  }
  const [, major = '0', minor = '0'] = /(\d+)\.(\d+)/.exec(version) ?? []
  const isNew = Number(major) > oldestGit[0] || (Number(major) === oldestGit[0] && Number(minor) >= oldestGit[1])
  return [isNew ? { state: 'ok', text: version } : failed(version, advice)]
}

interface Names {
  readonly resolver: Pick<AddressResolver, 'resolve4' | 'resolve6'>
  readonly searchList: SearchList
}

/**
 * Checks the name in `cluster.discovery.dns`, by kas' own rule for short names. Services of
 * `cluster.discovery.kubernetes` are checked at the API server, only in a pod.
 */
export async function checkDiscovery({ cluster: { discovery } }: KasConfig, names?: Names): Promise<Found[]> {
  const { dns } = discovery
  if (dns === undefined) return [{ state: 'skipped', text: 'cluster.discovery.dns is not set' }]
  const name = dns.replace(/:\d+$/, '')
  const { resolver, searchList } = names ?? { resolver: systemResolver(), searchList: await readSearchList() }
  const asked = fullNames(name, searchList).map((full) =>
    Promise.allSettled([resolver.resolve4(full), resolver.resolve6(full)]),
  )
  const each = await Promise.all(asked)
  const found = each.map((answers) => answers.flatMap((one) => (one.status === 'fulfilled' ? one.value : [])))
  const addresses = found.find(({ length }) => length > 0) ?? []
  const subject = 'cluster.discovery.dns'
  if (addresses.length > 0) return [{ state: 'ok', subject, text: `${name} has ${addresses.join(', ')}` }]
  const errors = each.flat().flatMap((one) => (one.status === 'rejected' ? [one.reason as NodeJS.ErrnoException] : []))
  const reason = (errors.find(({ code }) => code !== 'ENOTFOUND' && code !== 'ENODATA') ?? errors.at(0))?.message
  const advice = 'is it written right, and does DNS know it from here? Of a Service it has to be a headless one'
  return [{ state: 'failed', subject, text: `${name}: ${reason ?? 'no address'}`, advice }]
}
