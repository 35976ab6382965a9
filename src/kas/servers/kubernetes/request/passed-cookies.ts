import type { Headers } from '../../../../proto/http/http-message.ts'

/** Chooses the cookies of a caller that go on to the cluster, for web applications behind its API server. */

/**
 * Beginnings of cookie names that belong to GitLab, or to the host alone. Any case, because applications may ignore it.
 */
const ownCookies = /^(?:_gitlab|__host-|remember_user_token)/i

/**
 * True if cookies of one of the hosts may be GitLab's: cookies are valid for all ports of a host.
 *
 * @param hosts - hosts that the request names, with or without a port; empty: it may be any
 * @param gitlabHost - host of `gitlab.external_url`, without a port; undefined: there is no GitLab
 */
export function sharesHost(hosts: readonly string[], gitlabHost: string | undefined): boolean {
  if (gitlabHost === undefined) return false
  return (
    hosts.length === 0 || hosts.flatMap((host) => host.split(',')).some((host) => nameOf(host) === nameOf(gitlabHost))
  )
}

/** Headers in which a front names the original host if it replaces `Host`. */
const frontHeaders: ReadonlySet<string> = new Set(['X-Forwarded-Host', 'X-Original-Host', 'X-Host'])
const hostOfUrl = /^\s*https?:\/\/([^/?#]*)/i
const hostOfForwarded = /(?:^|[;,])\s*host=\s*"?([^";,\s]*)/gi

/**
 * Returns the hosts that a front or the browser names: a page has only cookies of its own host and domain. Requests
 * from a page of another site prove nothing about cookies.
 */
function hostsOfFront(header: Headers): string[] {
  const valuesOf = (wanted: string) => header.flatMap(([name, values]) => (name === wanted ? values : []))
  const isFromElsewhere = valuesOf('Sec-Fetch-Site').some((site) => site.trim() === 'cross-site')
  const pages = isFromElsewhere ? [] : [...valuesOf('Origin'), ...valuesOf('Referer')]
  return [
    ...header.flatMap(([name, values]) => (frontHeaders.has(name) ? values : [])),
    ...valuesOf('Forwarded').flatMap((value) => Array.from(value.matchAll(hostOfForwarded), ([, host = '']) => host)),
    ...pages.flatMap((page) => hostOfUrl.exec(page)?.[1] ?? []),
  ]
}

/**
 * True if a request may have been sent to GitLab's host, by its own host or by one that a front or page names.
 *
 * @param head - includes untrusted headers
 */
export function isSentToGitlab(
  { hosts, header }: { readonly hosts: readonly string[]; readonly header: Headers },
  gitlabHost: string | undefined,
): boolean {
  if (gitlabHost === undefined) return false
  return sharesHost(hosts, gitlabHost) || hostsOfFront(header).some((host) => sharesHost([host], gitlabHost))
}

/** @returns values of Cookie headers, without GitLab's cookies; empty: there are no others */
export function passedCookies(headers: readonly string[]): string[] {
  return headers.flatMap((header) => {
    const pairs = header.split(';').flatMap((pair) => {
      const text = pair.trim()
      const name = text.split('=', 1)[0]?.trim() ?? ''
      return text === '' || ownCookies.test(name.replace(/^"/, '')) ? [] : [text]
    })
    return pairs.length === 0 ? [] : [pairs.join('; ')]
  })
}

function nameOf(host: string): string {
  return host.trim().toLowerCase().replace(/:\d*$/, '').replace(/\.$/, '')
}
