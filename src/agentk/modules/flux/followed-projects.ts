import type { Logger } from '../../../lib/log.ts'

/** Which projects' pushes are followed. */

/** A group at least, and a project. */
const fullPath = /^[^/]+(?:\/[^/]+)+$/
/** GitLab's bound of one name. Characters */
const maxSegment = 255
/** More than its deepest groups have (20, and a project). Characters */
const maxPath = 1000

/** Whether it is short enough to be a project's. */
export function isPathLength(path: string): boolean {
  return path.length <= maxPath && path.split('/').every(({ length }) => length <= maxSegment)
}

/**
 * The full path of the GitLab project that a GitRepository reads: its host is GitLab's, by whatever scheme and port.
 * GitLab's relative root stands before it over HTTP, and not over SSH. As Flux, no scp-like form.
 *
 * @param externalUrl - of GitLab, as kas says it
 * @returns undefined: not of this GitLab
 */
export function projectPath(repositoryUrl: string, externalUrl: string): string | undefined {
  const repository = parse(repositoryUrl)
  const gitlab = parse(externalUrl)
  if (!repository || !gitlab?.host || repository.host !== gitlab.host) return undefined
  if (!['http', 'https', 'ssh'].includes(repository.scheme)) return undefined
  const root = repository.scheme === 'ssh' || gitlab.path === '' ? '' : `${gitlab.path}/`
  if (!repository.path.startsWith(root)) return undefined
  const path = repository.path.slice(root.length).replace(/\.git$/, '')
  return fullPath.test(path) ? path : undefined
}

function parse(text: string): { scheme: string; host: string; path: string } | undefined {
  try {
    const { protocol, hostname, pathname } = new URL(text)
    const path = decodeURIComponent(pathname).replace(/^\/+|\/+$/g, '')
    return { scheme: protocol.slice(0, -1), host: hostname.toLowerCase(), path }
  } catch {
    return undefined
  }
}

/** An object's project. */
export interface NamedProject {
  /** its kind and key, for the log */
  readonly object: string
  /** full path */
  readonly project: string
}

interface ProjectChoiceOptions {
  /** kas refuses a stream with more */
  readonly maxProjects: number
  /** of all paths as they are sent: below the 4 MiB that kas takes as one message */
  readonly maxBytes: number
}

const defaults: ProjectChoiceOptions = { maxProjects: 10_000, maxBytes: 4_000_000 }
/** Tags and lengths of a project in the message. */
const overheadBytes = 8

/** Which projects are followed, where there are too many for one stream, or names that no project has. */
export class ProjectChoice {
  readonly #log: Logger
  readonly #options: ProjectChoiceOptions
  #chosen: ReadonlySet<string> = new Set()
  /** objects with a path that is too long, as they stand in the log */
  #tooLong: ReadonlySet<string> = new Set()
  #isFull = false

  constructor({ log }: { log: Logger }, options: Partial<ProjectChoiceOptions> = {}) {
    this.#log = log
    this.#options = { ...defaults, ...options }
  }

  /** What was chosen before comes first: names that are made up do not take its place. @returns sorted */
  choose(all: Iterable<NamedProject>): string[] {
    const named = this.#named(all)
    const known = [...named].filter((project) => this.#chosen.has(project))
    const others = [...named].filter((project) => !this.#chosen.has(project)).sort()
    const chosen = this.#fitting([...known, ...others])
    const isFull = chosen.length < named.size
    if (isFull && !this.#isFull) this.#log.warn({ count: named.size }, 'Too many projects, some are not followed')
    this.#isFull = isFull
    this.#chosen = new Set(chosen)
    return chosen.sort()
  }

  #named(all: Iterable<NamedProject>): Set<string> {
    const named = new Set<string>()
    const tooLong = new Set<string>()
    for (const { object, project } of all) {
      if (isPathLength(project)) named.add(project)
      else {
        if (!this.#tooLong.has(object)) this.#log.warn({ object }, 'The path of a project is too long to be one')
        tooLong.add(object)
      }
    }
    this.#tooLong = tooLong
    return named
  }

  #fitting(projects: readonly string[]): string[] {
    const { maxProjects, maxBytes } = this.#options
    let bytes = 0
    const end = projects.findIndex((project, i) => {
      bytes += Buffer.byteLength(project) + overheadBytes
      return i >= maxProjects || bytes > maxBytes
    })
    return end < 0 ? [...projects] : projects.slice(0, end)
  }
}
