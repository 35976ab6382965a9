/**
 * Whether an agent fits to this kas: GitLab supports its own minor version of agents, the one before and the one after.
 * The warning is for people: kubectl prints it (doc/reference/tunnel-protocol.md 6.4 `Warning`).
 */

import { warning } from './warning.ts'

/** The last minor of a major version of GitLab is 11. */
const minorsPerMajor = 12
/** versions of agents that are remembered; a cluster could make up any number */
const maxRemembered = 256
/** of an entry of Via; an agent can write what it likes, and what is longer says nothing */
const maxEntryLength = 256
const agentEntry = /(?:^|\s)gitlab-agent\/([^/\s]*)/
const semantic = /^v?(\d{1,4})\.(\d{1,4})\.\d{1,6}(?![\d.])/

interface Served {
  /** of this program: an agentk of the same make fits too */
  readonly kas: string
  /** as reported to GitLab, which offers agents of that version: `cluster.advertised_version` */
  readonly gitlab: string
}

export class VersionSkew {
  readonly #served: readonly number[]
  readonly #gitlab: Release | undefined
  readonly #warnings = new Map<string, string | undefined>()

  constructor({ kas, gitlab }: Served) {
    this.#gitlab = parse(gitlab)
    this.#served = [this.#gitlab, parse(kas)].flatMap((release) => (release ? [release.place] : []))
  }

  /**
   * What a Warning header is to say; undefined: the agent fits.
   *
   * @param via - of the answer, its last value, to which agentk has added its own entry
   */
  warningFor(via = ''): string | undefined {
    const last = via.slice(via.lastIndexOf(',') + 1) // agentk's own
    const entry = last.length <= maxEntryLength ? last : ''
    if (this.#warnings.has(entry)) return this.#warnings.get(entry)
    const warning = this.#compare(agentEntry.exec(entry)?.[1])
    if (this.#warnings.size >= maxRemembered) this.#warnings.clear()
    this.#warnings.set(entry, warning)
    return warning
  }

  #compare(version = ''): string | undefined {
    const gitlab = this.#gitlab
    if (!gitlab) return undefined
    const agent = parse(version)
    if (!agent) return warning(`The version of the agent cannot be checked. That of GitLab is ${gitlab.text}`)
    if (this.#served.some((place) => Math.abs(place - agent.place) <= 1)) return undefined
    const than = `is ${agent.place < gitlab.place ? 'outdated' : 'newer than GitLab'}`
    const range = `${nameOf(gitlab.place - 1)} to ${nameOf(gitlab.place + 1)}`
    return warning(`The version of the agent, ${agent.text}, ${than}: GitLab ${gitlab.text} supports ${range}`)
  }
}

interface Release {
  /** without what stands behind the numbers */
  readonly text: string
  /** minor versions in their order, over the majors */
  readonly place: number
}

function parse(version: string): Release | undefined {
  const found = semantic.exec(version)
  if (!found) return undefined
  const [text, major, minor] = found as unknown as [string, string, string]
  return { text: text.startsWith('v') ? text : `v${text}`, place: Number(major) * minorsPerMajor + Number(minor) }
}

function nameOf(place: number): string {
  return `v${Math.floor(place / minorsPerMajor)}.${place % minorsPerMajor}`
}
