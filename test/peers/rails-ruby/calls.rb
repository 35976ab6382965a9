# Calls a service of an agent as GitLab does, with ruby-grpc: `ruby calls.rb HOST:PORT METHOD`. The JWT comes by KAS_JWT.
# Prints one JSON line for each kind of call; the agent that it calls is test/support/fake-agent.ts.
require 'grpc'
require 'json'

address, method = ARGV
BYTES = proc { |message| message }
METADATA = { 'authorization' => "bearer #{ENV.fetch('KAS_JWT')}", 'kas-hop-routing-agent-id' => '42' }.freeze
STUB = GRPC::ClientStub.new(address, :this_channel_is_insecure)

def tell(what, fields)
  puts JSON.generate({ what: what }.merge(fields))
  $stdout.flush
end

# Requests that are sent one by one, each when `push` says so.
class Requests
  def initialize
    @queue = Queue.new
  end

  def push(message)
    @queue.push(message)
  end

  def finish
    @queue.push(nil)
  end

  def each
    while (message = @queue.pop)
      yield message
    end
  end

  def each_item
    to_enum(:each)
  end
end

def in_time(seconds)
  Time.now + seconds
end

tell('unary', response: STUB.request_response(method, 'hello', BYTES, BYTES, deadline: in_time(20), metadata: METADATA))

requests = Requests.new
requests.push('a')
answers = []
STUB.bidi_streamer(method, requests.each_item, BYTES, BYTES, deadline: in_time(20), metadata: METADATA) do |message|
  answers << message
  answers.size < 2 ? requests.push('b') : requests.finish
end
tell('bidi', answers: answers)

begin
  STUB.request_response(method, 'late', BYTES, BYTES, deadline: in_time(2), metadata: METADATA)
rescue GRPC::BadStatus => e
  tell('deadline', code: e.code)
end

requests = Requests.new
requests.push('c')
operation = STUB.bidi_streamer(
  method, requests.each_item, BYTES, BYTES, deadline: in_time(20), metadata: METADATA, return_op: true
)
begin
  operation.execute.each do |_message|
    operation.cancel
  end
rescue GRPC::BadStatus => e
  tell('cancel', code: e.code)
end
requests.finish
