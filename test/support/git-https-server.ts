import { spawn } from 'node:child_process'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import { Authority } from '../../dev/certificates.ts'

const authorization = `Basic ${Buffer.from('ada:s3cret').toString('base64')}`

/**
 * Starts a Git server over https that requires `ada:s3cret`, and records its requests. Below `/moved` it redirects to
 * `/x.git`.
 *
 * @param projectRoot - the folder whose repositories it serves
 * @param isAllowed - checks an Authorization header; default: that of ada
 * @param host - its address
 */
export async function startGitHttpsServer(
  t: Test,
  projectRoot: string,
  isAllowed = (header: string | undefined) => header === authorization,
  host = '127.0.0.1',
) {
  const authority = await Authority.create('kas test')
  const { certificate: cert, key } = await authority.issueServing({ dns: [], ip: [host] })
  const seen: { url: string; authorization: string | undefined; at: number }[] = []
  const server = createServer({ cert, key }, (request, response) => {
    const url = new URL(request.url ?? '/', 'https://localhost')
    seen.push({ url: url.pathname, authorization: request.headers.authorization, at: performance.now() })
    if (url.pathname.startsWith('/moved/')) {
      response.writeHead(301, { location: `/x.git${url.pathname.slice('/moved'.length)}` }).end()
    } else if (!isAllowed(request.headers.authorization)) {
      response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end()
    } else serveByGit(t, { request, response, url, projectRoot })
  })
  t.teardown(() => new Promise((resolve) => server.close(resolve)))
  t.teardown(() => server.closeAllConnections())
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  return { origin: `https://${host}:${(server.address() as AddressInfo).port}`, ca: authority.certificate, seen }
}

interface Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly url: URL
  readonly projectRoot: string
}

/** Runs git http-backend as a CGI program. */
function serveByGit(t: Test, { request, response, url, projectRoot }: Exchange): void {
  const env = {
    PATH: process.env.PATH,
    GIT_PROJECT_ROOT: projectRoot,
    GIT_HTTP_EXPORT_ALL: '1',
    REQUEST_METHOD: request.method,
    PATH_INFO: url.pathname,
    QUERY_STRING: url.search.slice(1),
    CONTENT_TYPE: request.headers['content-type'] ?? '',
    HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
    GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
  }
  const backend = spawn('git', ['http-backend'], { env, stdio: ['pipe', 'pipe', 'ignore'] })
  t.teardown(() => backend.kill())
  request.pipe(backend.stdin).on('error', () => undefined)
  const chunks: Buffer[] = []
  backend.stdout.on('data', (chunk: Buffer) => chunks.push(chunk))
  backend.on('close', () => {
    const answer = Buffer.concat(chunks)
    const end = answer.indexOf('\r\n\r\n')
    if (end === -1) return void response.destroy() // killed before it answered: the test is over
    const lines = answer.subarray(0, end).toString().split('\r\n')
    const headers = lines.map((line) => line.split(': ') as [string, string])
    const status = headers.find(([name]) => name === 'Status')?.[1] ?? '200'
    response.writeHead(Number.parseInt(status, 10), headers.filter(([name]) => name !== 'Status').flat())
    response.end(answer.subarray(end + 4))
  })
}
