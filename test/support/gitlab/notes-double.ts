import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

export interface DoubleNote {
  readonly id: number
  body: string
  readonly author: { readonly id: number; readonly username: string }
  readonly system: boolean
}

interface Reply {
  readonly status: number
  readonly body: unknown
  readonly headers?: Readonly<Record<string, string>>
}

const notFound: Reply = { status: 404, body: { message: '404 Not found' } }
/** GitLab's largest page. */
const maxPerPage = 100

/**
 * The notes of merge requests in GitLab's REST API, after https://docs.gitlab.com/api/notes/: pages, the authors of
 * tokens, and who may edit a note.
 */
export class NotesDouble {
  readonly notes: DoubleNote[] = []
  /** requests, as `GET /api/v4/user` */
  readonly asked: string[] = []
  /** users by their tokens */
  readonly users = new Map<string, number>()
  /** status of all answers; absent: as usual */
  fault: number | undefined
  /** called before each answer: other jobs write meanwhile */
  before: (request: string) => void = () => undefined
  url = ''
  readonly #project: string
  #nextId = 1

  private constructor(project: string) {
    this.#project = project
  }

  /** @param project - path of the merge request: `projects/1/merge_requests/2` */
  static async start(t: { teardown(action: () => unknown): void }, project: string): Promise<NotesDouble> {
    const double = new NotesDouble(project)
    const server = createServer(async (request, response) => {
      const { status, body, headers } = await double.#reply(request)
      response.writeHead(status, { 'content-type': 'application/json', ...headers })
      response.end(body === undefined ? '' : JSON.stringify(body))
    })
    t.teardown(() => server.close())
    await once(server.listen(0, '127.0.0.1'), 'listening')
    double.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/api/v4`
    return double
  }

  add(body: string, author: number, { system = false } = {}): DoubleNote {
    const note = { id: this.#nextId++, body, author: { id: author, username: `user-${author}` }, system }
    this.notes.push(note)
    return note
  }

  async #reply(request: IncomingMessage): Promise<Reply> {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://gitlab')
    const { method = '' } = request
    const given = `${method} ${pathname}`
    this.asked.push(given)
    this.before(given)
    const token = String(request.headers['private-token'])
    const user = this.users.get(token)
    if (this.fault !== undefined) return { status: this.fault, body: { message: `${token} is refused` } }
    if (user === undefined) return { status: 401, body: { message: '401 Unauthorized' } }
    if (given === 'GET /api/v4/user') return { status: 200, body: { id: user, username: `user-${user}` } }
    const [, id] = pathname.split(`/api/v4/${this.#project}/notes`)
    if (id === undefined) return notFound
    if (id === '' && method === 'GET') return this.#page(searchParams)
    const content = method === 'POST' || method === 'PUT' ? JSON.parse(await text(request)).body : ''
    if (id === '' && method === 'POST') return { status: 201, body: this.add(content, user) }
    const note = this.notes.find((one) => `/${one.id}` === id)
    if (!note) return notFound
    if (method === 'GET') return { status: 200, body: note }
    if (note.author.id !== user) return { status: 403, body: { message: '403 Forbidden' } }
    if (method === 'DELETE') {
      this.notes.splice(this.notes.indexOf(note), 1)
      return { status: 204, body: undefined }
    }
    note.body = content
    return { status: 200, body: note }
  }

  #page(query: URLSearchParams): Reply {
    const size = Math.min(Number(query.get('per_page') ?? 20), maxPerPage)
    const page = Number(query.get('page') ?? 1)
    const sorted = query.get('sort') === 'asc' ? this.notes : this.notes.toReversed()
    const shown = sorted.slice((page - 1) * size, page * size)
    const next = page * size < sorted.length ? String(page + 1) : ''
    return { status: 200, body: shown, headers: { 'x-next-page': next, 'x-page': String(page) } }
  }
}
